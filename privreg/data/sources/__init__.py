"""Readers of rows, a file a format; `open` chooses one. Only the columns asked for are touched."""
