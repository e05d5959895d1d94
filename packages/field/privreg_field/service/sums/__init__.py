"""A study with two collectors, at one of them: each holds shares that alone are uniform, and adds noise to their sum.

`sealing` has the keys of batches, in files, and adds up shares with noise; `peer` is how the two speak. `batch_log`
has the study at one of them, `scheduler` says whose turn it is and what is answered. `app` answers devices, analysts
and the other, and has what `privreg collector` does. `store/` has the records.
"""
