"""Options of all front doors, said once: of models, fits, plans and the command line.

`table` has a record for each (`table.json`), `spelling` says messages as the command line or a study's file calls what
they name, `unknown` refuses what nobody takes, by what other libraries call it (``elsewhere.json``), and `running` has
the bar that `progress=` shows, and the threads of linear algebra.
"""
