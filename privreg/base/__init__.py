"""Foundations of all rooms: files that are written whole or not at all, types, the version.

`archive` writes and reads what is saved, and seals what chooses noise to come, `optional` imports packages that not
everybody has, and what they add. `arrays` are types of arrays, `version` is the package's.
"""
