"""Sample size and power before there are data.

`power` asks (``pr.plan``), `study_plan` answers by the numbers of `plan` and a `search`, `wording` says it and `plots`
draws it, from `scenario` (what is assumed of people) and `precision` (what fits of so many show), for which `rehearsal`
holds a fit's rounds on expected reports, or with two collectors or a curator `fits` fits made-up people, by which a
plan is tried, too. `two_groups` plans the comparison of two shares or means (``pr.plan_two_groups``).
"""
