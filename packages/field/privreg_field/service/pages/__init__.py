"""Web pages: `survey` is a respondent's, `dashboard` the analyst's, with its counts and events.

The files of both, and the device in JavaScript, are beside this folder, in web.
"""
