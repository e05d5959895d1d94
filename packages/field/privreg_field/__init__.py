"""Studies in the field: people's own devices add the noise, collectors add up what they send, an analyst reads sums.

`device` makes one report of one record, `wire` is what devices, collectors and analysts write to each other,
`collector` makes a study's states of sums of reports, `service` serves it over HTTP, with the survey's page and the
dashboard, `study` is the analyst's side, `silos` are hospitals that keep their rows. `verbs` are those of the command
`privreg`.
"""

from typing import Final

KIT: Final = "./packages/field"
"""Folder that the kit is installed from, in a clone."""
