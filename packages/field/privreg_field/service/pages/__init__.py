"""What people look at: `survey` is a respondent's page, `dashboard` the analyst's, for which `feed` counts and tells
what comes. The files of both, and the device in JavaScript, are beside this folder, in web.
"""
