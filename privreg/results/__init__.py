"""What a statistician is handed. Reports only.

`results` has the public class, `base` what results share, `data` what they know, `saving` how they are kept. `summary`
and `views` are its tables, `statement` and `wording` the privacy statement, `comparison` several results side by side,
`equation` what the estimates solve; `hypothesis`, `prediction` and `effects` are what is asked of it, `plots` its
figures.
"""

from privreg.results.results import PrivateResults

__all__ = ["PrivateResults"]
