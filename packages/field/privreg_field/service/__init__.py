"""The collector of a study in the field as a server: the extra "serve".

`store` has the records, each report once, and the databases. `scheduler` says which state is published, and when it
closes; `sums` is a study with two collectors. `tokens` entitle to one report each, `access` says who may read or
operate. `http` answers requests, `pages` shows the survey and the analyst's dashboard, whose files, and the device in
JavaScript, are in `web/`. `commands` start and look after all of it, `logs` writes what happens.
"""
