"""Studies in the field, on the analyst's side. Nothing here sees a person's row or report,
but for made-up people's in `devices`.

`declared` reads a study's file and the model in it. `plan` makes the plan of a study, of the public plan of a fit and
of what respondents read. `keys` makes signing keys, signs plans and states, and writes invitations. `command` is
their command line, and `running` how all commands of studies run.

`collected` makes results of a plan and of sums of reports, `summed` of two collectors' sums; `connect` is
`privreg.connect`, which makes a `study`, or one that is `shared`: it gets and verifies them, by `servers`; `several` is
a study of several analyses, `tabled` are tables among them, `precision` what to expect of each. `reading` is its
command. `picture` has what a dashboard shows of results, and `live` follows it in a notebook. `devices` are simulated
ones, many at once, `swarm` lets them answer, and `demo` plays a whole study by the commands that a real one takes.
"""
