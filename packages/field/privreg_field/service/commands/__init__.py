"""Commands of whoever collects: `privreg serve`, `privreg tokens` and `privreg collector`.

`serve`, `tokens` and `collector` are these, which begin with what `prepare` has; `settings` are their options said
elsewhere. `mail` puts tokens beside a list of people; `keeping` is backups, moves and deletion.
"""
