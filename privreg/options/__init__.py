"""Options of all front doors, said once: of models, fits, plans and the command line.

`table` has a record for each, read from `table.json`: its name, its range, its help, and who takes it. `spelling` says
messages as the command line, or a study's file, calls what they name in Python. `unknown` refuses what nobody takes,
and knows what other libraries call things (``elsewhere.json``). `running` has the bar that `progress=` shows, and the
threads of linear algebra.
"""
