"""Public names of the package with their homes, for type checkers and for the package, which imports them lazily."""

from typing import Any

from privreg import central as central
from privreg import datasets as datasets
from privreg import errors as errors
from privreg import families as families
from privreg import federated as federated
from privreg import means as means
from privreg.base.version import __version__ as __version__
from privreg.data.sources.csv import csv as csv
from privreg.data.sources.database import sql as sql
from privreg.doors.loading import load as load
from privreg.doors.regression import PrivateOnlineRegression as PrivateOnlineRegression
from privreg.errors import PrivacyLeakError as PrivacyLeakError
from privreg.errors import PrivacyLeakWarning as PrivacyLeakWarning
from privreg.families import Cloglog as Cloglog
from privreg.families import Expectile as Expectile
from privreg.families import Hinge as Hinge
from privreg.families import Huber as Huber
from privreg.families import Logistic as Logistic
from privreg.families import Multinomial as Multinomial
from privreg.families import NegativeBinomial as NegativeBinomial
from privreg.families import Ordered as Ordered
from privreg.families import Poisson as Poisson
from privreg.families import Quantile as Quantile
from privreg.families import SmoothedHinge as SmoothedHinge
from privreg.families import Squared as Squared
from privreg.families import Tobit as Tobit
from privreg.formula.language.rowwise import rowwise as rowwise
from privreg.means.model import survival as survival
from privreg.means.model import table_one as table_one
from privreg.planning.power import plan as plan
from privreg.planning.two_groups import plan_two_groups as plan_two_groups
from privreg.privacy.ledger import Budget as Budget
from privreg.privacy.ledger import Ledger as Ledger
from privreg.privacy.ledger import limit_spending as limit_spending
from privreg.results.several.comparison import anova as anova
from privreg.results.several.comparison import compare as compare
from privreg.results.several.meta import meta_analysis as meta_analysis
from privreg.results.several.meta import shrink as shrink
from privreg.schema.declarations import Schema as Schema
from privreg.simulation.simulate import simulate as simulate

def __getattr__(name: str) -> Any: ...  # names that other distributions add
