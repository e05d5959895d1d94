"""The collector of a study in the field as a server: the extra "serve".

`store` is what is kept, each report once, and the databases that keep it. `course` is a study as it goes on: which
state is published, and when it closes, by `clock`; `sums` is a study with two collectors. `tokens` entitle to one
report each, `access` says who may read or operate. `http` answers requests, `pages` shows the survey and the analyst's
dashboard, whose files, and the device in JavaScript, are in `web/`. `commands` are those that start and look after all
of it, `logs` writes what happens.
"""
