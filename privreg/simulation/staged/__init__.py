"""The staged engine, whole: it mixes both sides of the wall, and import contracts leave it out until rounds replace it.

`schedule` and `start` are its plan, `pipeline`, `beginning` and `lanes` its collector, `playing` and `kernels` its
devices; `intervals` and `findings` say what is known of an estimate, `saved` keeps it.
"""
