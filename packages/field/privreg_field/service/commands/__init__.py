"""Commands of a collector: `privreg serve`, `privreg tokens` and `privreg collector`.

`serve`, `tokens` and `collector` are these; `prepare` reads their settings, the plan and the database.
"""
