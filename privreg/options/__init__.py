"""Options of all front doors, said once: of models, fits, plans and the command line.

`table` has a record for each, read from `table.json`: its name, its range, its help, and who takes it. `spelling` says
messages as the command line, or a study's file, calls what they name in Python. `unknown` refuses what nobody takes,
`elsewhere` has what other libraries call things, as tables in `elsewhere.json`. `values` reads what is more than one
number or name, `progress` is the bar that `progress=` shows, `threads` keeps linear algebra on small matrices to one.
"""
