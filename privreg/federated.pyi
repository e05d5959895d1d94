from privreg.audit.neighbours import Verification as Verdict  # noqa: F401
from privreg.published.federated import flower as flower
from privreg.published.federated.model import FederatedRegression as FederatedRegression
from privreg.published.federated.reports import UPDATE_MECHANISMS as UPDATE_MECHANISMS
from privreg.published.federated.reports import UpdateMechanism as UpdateMechanism
from privreg.published.federated.reports import update_mechanism as update_mechanism
from privreg.published.federated.results import FederatedResults as FederatedResults
from privreg.published.federated.theory import AngleBox as AngleBox
from privreg.published.federated.theory import from_angles as from_angles
from privreg.published.federated.theory import to_angles as to_angles
from privreg.results.statement import PrivacyStatement as ClientStatement  # noqa: F401
