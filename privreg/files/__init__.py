"""Files, whole or not at all.

`archive` writes and reads what is saved, `sealing` seals what chooses noise to come, `optional` imports packages that
not everybody has, and what they add.
"""
