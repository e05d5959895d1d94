"""The collector of a study in the field as a server: the extra "serve".

`store` has the records, each report once, and the databases. `scheduler` says which state is published, and when it
closes; `sums` is a study with two collectors. `access` has the tokens: invitations, each of which entitles to one
report, and those of readers and operators. `http` answers requests, `pages` shows the survey and the analyst's
dashboard, whose files, and the device in JavaScript, are in `web/`. `commands` start and look after all of it, `logs`
writes what happens.
"""
