"""The command line: `app` is the program; every further module is a verb, or reads what is typed."""
