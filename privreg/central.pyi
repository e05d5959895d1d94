from privreg.audit.descent import audit as audit
from privreg.doors.regression import Regression as Regression
from privreg.published.descent.losses import Absolute as Absolute
from privreg.published.descent.losses import QHinge as QHinge
from privreg.published.descent.losses import QNorm as QNorm
from privreg.published.descent.results import CentralResults as CentralResults
