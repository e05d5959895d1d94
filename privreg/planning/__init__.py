"""Sample size and power before there are data.

`power` asks (``pr.plan``), `plan` answers and `plots` draws it, from `scenario` (what is assumed of people) and
`precision` (what a fit of them shows); `check` tries it by fits of made-up people.
"""
