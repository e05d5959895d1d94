"""A study with two collectors, at one of them: each holds shares that alone are uniform, and adds noise to their sum.

`keys` are those of batches, in files; `adding` opens shares and adds them with noise; `peer` is how
the two speak. `book` is what one has of the study, and `course` how it goes on: whose turn it is, what is answered.
`app` answers devices, analysts and the other; `command` is what `privreg collector` does. `store/` keeps it all.
"""
