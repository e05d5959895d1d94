"""The command line: `app` is the program, `verbs` has what it does.

`app` asks for other verbs, as those of studies in the field, which are found by their entry points. `parser` is made
from the table of options and the texts of `help.toml`, `values` reads what is typed, and `output` writes results.
"""
