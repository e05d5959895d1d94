"""Studies in the field, on the analyst's side. Nothing here sees a person's row or report, but for made-up people's.

`declaring` is a study before it begins: its file, its plan, which is signed. `reading` is what comes of it: sums of
reports from its servers, verified, and results. `simulated` devices try all of it. `keys` makes signing keys, signs
plans and states, and writes invitations; `servers` are asked what they have; `tabled` are tables among a study's
analyses; `running` is how all commands of studies run.
"""
