"""The command line: `app` is the program, `verbs` has what it does.

`app` has a parser, made from the table of options and the texts of `help.toml`, and asks for other verbs, as those of
studies in the field, which are found by their entry points. `values` reads what is typed.
"""
