"""The collector of a study in the field as a server: `pip install "privreg[serve]"`.

`store` is what is kept, each report once, and the databases that keep it. `course` is a study as it goes on: which
state is published, and when it closes, by `clock`; `sums` is a study with two collectors. `tokens` entitle to one
report each, `mail` puts them beside a list of people, `quota` limits how often one address asks. `access` says who may
read or operate. `desk` answers requests, and counts them, `app` those of studies whose devices add the noise; `operate`
is what operators ask, `problems` what is answered instead. `guard` limits connections, `feed` counts and tells what
comes, `logs` writes what happens. `pages` shows the survey, `dashboard` is the analyst's page; the files of both, and
the device in JavaScript, are in `web/`. `command` is `privreg serve`, `privreg tokens` and `privreg collector`,
`settings` their options said elsewhere, `keeping` backups, moves and deletion.
"""
