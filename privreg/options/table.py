"""One table of all options: what each is called here and elsewhere, what it may be, who takes it, what it is for.

Front doors of Python and verbs of the command line take their names, ranges, choices, hints and help from here. Needs
the standard library only, so that ``--help`` answers at once.
"""

from __future__ import annotations

import math
from functools import cache
from numbers import Integral
from typing import Any, Final, NamedTuple

from privreg.errors import OptionError, choose, real, shown

DOORS: Final = {
    "local.arrays": "PrivateOnlineRegression",
    "local.formula": "from_formula",
    "local.start": "start",
    "local.fit": "fit",
    "curator.arrays": "Regression",
    "curator.formula": "from_formula",
    "curator.fit": "fit",
    "means.arrays": "PrivateMeans",
    "means.formula": "from_formula",
    "means.start": "start",
    "means.fit": "fit",
    "silos.arrays": "FederatedRegression",
    "silos.formula": "FederatedRegression.from_formula",
    "silos.fit": "FederatedRegression.fit",
    "plan.formula": "plan",
}
"""Front doors, as a product and a stage, with what messages call them."""


class Option(NamedTuple):
    """One option; what other libraries call it is in `elsewhere.json`."""

    name: str
    # Products whose models take it; with .arrays or .formula one stage, with .run start() and fit(), with .fit fit()
    doors: str = ""
    verbs: str = ""  # Verbs of the command line that take it, and "study" of a study's file
    kind: str = "text"  # What it is: choice, number, whole, count and flag are checked here
    default: Any = None  # Of Python; that of the command line is the same, or left to Python
    choices: tuple[str, ...] = ()
    low: float = 0.0  # Of a number: not itself allowed; of a whole number: allowed
    high: float = math.inf  # Not itself allowed of a number unless `closed`
    closed: bool = False
    what: str = ""  # What it must be, after "must be"
    group: str = ""  # Title in the help of verbs
    metavar: str | None = None
    help: str = ""
    shell: str = ""  # Its name on the command line, if that is another
    families: str = ""  # Families that it belongs to
    curator: str = ""  # Why there is none with a trusted curator

    def takes(self, door: str) -> bool:
        """Whether a front door takes it."""
        product, _, stage = door.partition(".")
        wide = "run" if stage in {"start", "fit"} else ""
        return bool({door, f"{product}.{wide}".rstrip(".")} & set(self.doors.split()))

    def of(self, product: str) -> bool:
        """Whether any front door of a product takes it."""
        return any(d.partition(".")[0] == product for d in self.doors.split())

    @property
    def spelt(self) -> str:
        """Its name on the command line; of a word without dashes as it is."""
        return self.name if self.kind.startswith("word") else f"--{self.shell or self.name.replace('_', '-')}"

    @property
    def dest(self) -> str:
        """Its attribute of what argparse returns."""
        return (self.shell or self.name).replace("-", "_")

    def check(self, value: Any, called: str = "", high: int | None = None) -> Any:
        """Return a value that is among the choices, or in the range; None and "auto" where they are the default.

        `called` is its name in front of the value in messages, that of Python by default, and `high` the largest whole
        number, where that depends on the data.
        """
        if value is self.default or (isinstance(value, str) and value == "auto" == self.default):
            return value
        if self.kind == "choice":
            return choose(self.name, value, self.choices)
        top = self.high if high is None else high
        if self.kind == "flag" and isinstance(value, bool):
            return value
        if self.kind == "count" and isinstance(value, float) and value.is_integer():  # as 1e6
            value = int(value)
        if self.kind in {"whole", "count"}:
            if not isinstance(value, bool) and isinstance(value, Integral) and self.low <= int(value) <= top:
                return int(value)
        elif self.kind == "number":
            number = real(value)
            if number is not None and self.low < number and (number < top or (self.closed and number == top)):
                return number
        allowed = self.what.format(low=self.low, high=top)
        raise OptionError(f"{called or f'{self.name}='}{shown(value)} must be {allowed}.")


BUDGET: Final = "budget per person (exactly one form)"
FACTS: Final = "public facts (repeatable, several at a time)"
EXPECTED: Final = "what you expect"
GOAL: Final = "two of these three; the third is found"
_ALL: Final = "local curator means silos plan"
_DEVICES: Final = (
    "is about people's devices, and with trust='central' a curator holds the rows; the noise is Gaussian: leave it out"
)
_COUNTS: Final = "counts reports of people, and with trust='central' each row is protected as one record; leave it out"
_REPORTS: Final = (
    "belongs to fits of people's reports; a curator's fit has perturbation=, order=, epochs=, step=, radius=, lanes=, "
    "average=, batch_size=, seed=, progress="
)
_STOPPED: Final = "belongs to fits of people's reports; a curator's fit holds its rows in memory and runs through"
_APART: Final = "is not supported with trust='central'; subtract it from the response"
_COUNT: Final = "a whole number of {what}, 1 or more (at most {{high}})"
_DATA: Final = "CSV, Parquet or Feather file, or folder of Parquet; only columns named are read"
_TINY: Final = math.nextafter(1e-12, 0.0)  # so that 1e-12 itself is allowed
# fmt: off
_METHODS: Final = (
    "sandwich", "between_lanes", "random_scaling", "batch_means", "block_bootstrap", "block_bootstrap_t", "anytime",
    "plug_in", "path_curvature", "random_scaling_full", "plug_in_central",
)

TABLE: Final = (
    # --- words of the command line ---------------------------------------------------------------------------
    Option("formula", verbs="fit plan study", kind="word", metavar="FORMULA",
           help='such as "charges ~ age + smoker", in quotes'),
    Option("formula", verbs="means", kind="word?", metavar="FORMULA", help='such as "age + C(smoker) ~ 1", in quotes'),
    Option("what", verbs="schema", kind="word", metavar="WHAT", help="check or template"),
    Option("path", verbs="fit schema", kind="word", metavar="DATA", help=_DATA),
    Option("path", verbs="means", kind="word?", metavar="DATA", help=_DATA),
    Option("sep", verbs="fit means schema", metavar="MARK", help="CSV: what is between fields, ';' or tab say"),
    Option("decimal", verbs="fit means schema", metavar="MARK", help="CSV: what is before decimals, '.' or ','"),
    Option("dates", verbs="fit means schema", metavar="FORMAT", help="CSV: how dates are written, such as %%d.%%m.%%Y"),
    Option("encoding", verbs="fit means schema", metavar="NAME", help="CSV: such as latin-1; UTF-8 by default"),
    Option("schema", verbs="schema", kind="word?", metavar="SCHEMA", help="check: YAML or JSON file of declarations"),
    Option("name", verbs="data", kind="word", metavar="NAME", help="us-insurance or ride-sharing"),
    Option("path", verbs="show", kind="word", metavar="FILE", help="results that --out FILE.privreg or save() kept"),
    Option("path", verbs="data", kind="word", metavar="PATH",
           help="CSV or Parquet file to write, by its suffix; replaced if it exists"),
    Option("name", verbs="experiment", kind="word?", metavar="NAME", help="of the experiment; see --list"),
    # --- verbs of their own ----------------------------------------------------------------------------------
    Option("corrections", verbs="means", kind="flag", help="print what is corrected in the source, and stop"),
    Option("rows", verbs="data", kind="whole", metavar="N", help="number of rows (default: 1,000,000 and 50,000)"),
    Option("seed", verbs="data", kind="whole", metavar="S", help="seed of the synthetic rows"),
    Option("schema", verbs="data", metavar="FILE", help="also write its public declarations, .yaml or .json"),
    Option("formula", verbs="schema", metavar="FORMULA", help="check: only the columns that this formula needs"),
    Option("out", verbs="schema", metavar="SCHEMA", help="template: file to write; printed by default"),
    Option("list", verbs="experiment", kind="flag", help="list the experiments and what each needs"),
    Option("reps", verbs="experiment", kind="whole", metavar="R",
           help="replications of each cell (default: as published)"),
    Option("jobs", verbs="experiment", kind="whole", default=1, metavar="J", help="processes (default 1)"),
    Option("out", verbs="experiment", default="experiments", metavar="DIR",
           help="folder of the results (default: experiments, made if missing)"),
    Option("quick", verbs="experiment", kind="flag",
           help="a look in seconds: few replications of small cells, in DIR/quick"),
    Option("cells", verbs="experiment", kind="texts", metavar="CELL", help="some cells; * and ? stand for others"),
    Option("again", verbs="experiment", kind="flag", help="replace stored runs instead of adding to them"),
    # --- budget ----------------------------------------------------------------------------------------------
    Option("n", "plan", "plan", "count", low=1, high=10**15, what="a whole number of records, 1 or more", group=GOAL,
           metavar="N", help="records"),
    Option("width", "plan", "plan", "sizes", group=GOAL, metavar="[NAME=]W",
           help="length of 95%% intervals: of that coefficient, or all"),
    Option("effect", "plan", "plan", "sizes", group=GOAL, metavar="[NAME=]E",
           help="size of a coefficient that a test is to find"),
    Option("power", "plan", "plan", "number", high=1.0, what="a number in (0, 1)", group=GOAL, metavar="P",
           help="with what probability (default 0.8)"),
    Option("mu", "local", "fit study", "budget", group=BUDGET, metavar="MU",
           help="Gaussian differential privacy; 1 is usual. Or a column of public personal budgets, with --mu-max"),
    Option("mu", "curator means silos plan", "means plan", "number", group=BUDGET, metavar="MU",
           help="Gaussian differential privacy; 1 is usual"),
    Option("mu_max", "local.formula", "fit", "number", group=BUDGET, metavar="MU",
           help="the largest budget in that column", curator=_COUNTS),
    Option("epsilon", "local", "fit", "budget", group=BUDGET, metavar="E",
           help="pure epsilon-DP; with --delta (epsilon, delta)-DP. Or a column, as for --mu, with --epsilon-max"),
    Option("epsilon", "curator means silos plan", "means plan", "number", group=BUDGET, metavar="E",
           help="pure epsilon-DP; with --delta (epsilon, delta)-DP"),
    Option("epsilon_max", "local.formula", "fit", "number", group=BUDGET, metavar="E",
           help="the largest budget in that column", curator=_COUNTS),
    Option("delta", _ALL, "fit means plan", "number", group=BUDGET, metavar="D", help="with --epsilon; 1e-6 is usual"),
    Option("rho", _ALL, "fit means plan", "number", group=BUDGET, metavar="R", help="zero-concentrated DP"),
    Option("no_privacy", "", "fit means plan", "flag", group=BUDGET,
           help="no noise, for teaching, tests and comparison; the summary says so"),
    # --- public facts ----------------------------------------------------------------------------------------
    Option("bounds", _ALL, "fit means plan study", "pairs", group=FACTS, metavar="NAME=LOW:HIGH",
           help="range of a number, or two dates (day=2020-01-01:2020-12-31); values outside are clamped"),
    Option("levels", "local curator silos plan", "fit plan study", "levels", group=FACTS, metavar="NAME=A,B,...",
           help="levels of a factor; the first is the reference"),
    Option("levels", "means", "means", "levels", group=FACTS, metavar="NAME=A,B,...",
           help="levels of a factor, or of the --by column"),
    Option("moments", "local curator silos plan", "fit plan study", "pairs", group=FACTS, metavar="NAME=MEAN:SD",
           help="mean and sd of a number that isn't clamped"),
    Option("schema", "local.formula curator.formula means silos.formula plan", "fit means plan", group=FACTS,
           metavar="FILE", help="these facts in a .yaml or .json file; options given beside it take precedence"),
    Option("scaling", "local", "fit study", "choice", "public", ("public", "private"), group=FACTS, metavar="S",
           help="public (default) or private: learn the scale of numbers not declared from privatised reports",
           curator="learns scales from reports, and a curator's columns are scaled by public bounds; give bounds="),
    Option("allow_leak", "local", "fit", "texts", (), ("levels", "scale"), group=FACTS, metavar="KIND",
           help="scale, levels: take what isn't declared from the rows; NOT private, holds the file in memory",
           curator="has no place with trust='central': declare bounds= and levels="),
    # --- what a plan expects ---------------------------------------------------------------------------------
    Option("scale", "plan", "plan", "number", group=EXPECTED, metavar="S",
           help="residual sd (default: a quarter of the response's range)"),
    Option("params", "plan", "plan", "coefficients", group=EXPECTED, metavar="NAME=B",
           help="coefficients (default 0); they matter for logistic and the like"),
    Option("shares", "plan", "plan", "numbers", group=EXPECTED, metavar="NAME=A,B,...",
           help="how frequent a factor's levels are (default: equally)"),
    Option("covariates", "plan", "plan", group=EXPECTED, metavar="FILE",
           help="CSV or Parquet file of public or made-up rows to take the covariates from"),
    Option("covariates", "local.run", "fit", group=FACTS, metavar="FILE", curator=_REPORTS,
           help="file of public rows, of a census or an earlier study, that look like people's covariates: curvature "
           "is computed from them before reports tell it"),
    # --- model -----------------------------------------------------------------------------------------------
    Option("family", "local curator plan", "fit plan study", "family", "huber", group="model",
           help="huber (default), expectile, quantile, logistic, multinomial, poisson, hinge, smoothed_hinge, squared"),
    Option("family", "silos", default="logistic"),
    Option("tau", "", "fit plan study", "number", group="model", metavar="T", families="expectile quantile",
           help="level of a quantile or expectile, in (0, 1) (default 0.5)"),
    Option("y_max", "", "fit plan study", "number", group="model", metavar="Y", families="poisson",
           help="poisson: public largest count; larger ones are clamped"),
    Option("width", "", "fit study", "number", group="model", metavar="W", families="smoothed_hinge",
           help="smoothed_hinge: where the hinge is rounded (default 1)"),
    Option("c", "", "fit plan study", "auto", group="model", metavar="C", families="huber expectile poisson",
           help="huber, expectile: threshold in residual scales, or auto (default); poisson: where Pearson residuals "
           "are clipped (default: nowhere)"),
    Option("scale", "", "fit study", "auto", group="model", metavar="S", families="huber expectile",
           help="huber, expectile: public guess of the residual scale, or auto (default)"),
    Option("offset", "local", "fit study", group="model", metavar="COLUMN", help="column added to the linear predictor",
           curator=_APART),
    Option("exposure", "local", "fit study", group="model", metavar="COLUMN",
           help="column whose log is added; its --bounds must be above 0", curator=_APART),
    Option("score_weights", "local plan", "fit", "choice", None,
           ("unit", "whitened", "published", "published_slopes"), group="model", metavar="W",
           help="unit, whitened or published; the tuning chooses by default", curator=_DEVICES),
    Option("exog_names", "local.arrays curator.arrays silos.arrays"),
    Option("endog_name", "local.arrays curator.arrays silos.arrays"),
    Option("trust", "local plan", "fit plan study", "choice", "local", ("local", "two_collectors", "central"),
           group="model", metavar="T", help="local (default): nobody is trusted; two_collectors, who don't "
           "collude, hold half of every report each: the noise falls on sums, so that some 2,000 people are enough; "
           "central: a curator holds the rows"),
    Option("trust", "curator", "", default="central"),
    Option("trust", "means", "means", "choice", "local", ("local", "two_collectors", "central"), group="mechanism",
           metavar="T", help="local (default): nobody is trusted; two_collectors, who don't collude, hold half of "
           "every report each, and noise falls on sums; central: a curator holds the rows"),
    # --- mechanism -------------------------------------------------------------------------------------------
    Option("mechanism", "local plan", "fit plan", "choice", "auto",
           ("auto", "gaussian", "laplace", "randomized_response", "privunit"), group="mechanism", metavar="M",
           help="gaussian, laplace, privunit, randomized_response, or auto (default): the least noise for the budget",
           curator=_DEVICES),
    Option("mechanism", "means", "means", "choice", "auto",
           ("auto", "laplace", "gaussian", "duchi", "piecewise", "square_wave", "square_wave_biased", "privunit"),
           group="mechanism", metavar="M",
           help="laplace, gaussian, duchi, piecewise, square_wave, square_wave_biased, privunit, or auto (default)"),
    Option("mechanism", "silos", "", "choice", "auto",
           ("auto", "gaussian", "privunit", "laplace", "piecewise", "geodp", "ldpvec")),
    Option("private", "local plan", "fit plan", "choice", "record", ("record", "response"), group="mechanism",
           metavar="WHAT", curator=_DEVICES,
           help="record (default), or response: covariates are public and only the response is protected"),
    Option("frequencies", "means", "means", "choice", "auto", ("auto", "grr", "oue", "histogram", "gaussian"),
           group="mechanism", metavar="F", help="grr, oue, histogram, gaussian or auto (default)"),
    Option("m", "means", "means", "whole", group="mechanism", metavar="M",
           help="of d items each person is asked m (default: the least noise)"),
    # --- people ----------------------------------------------------------------------------------------------
    Option("by", "means", "means", group="people", metavar="COLUMN", help="column of public subgroups, with --levels"),
    Option("by_budget", "means", "means", "budgets", group="people", metavar="GROUP=E",
           help="a subgroup's own budget, at most the rest's"),
    Option("by_bounds", "means"),
    Option("id", "local.formula means", "fit means", group="people", metavar="COLUMN", curator=_COUNTS,
           help="column that identifies people, if some have several rows"),
    Option("max_per_id", "local.formula means", "fit means", "whole", 1, low=1, high=10**9, group="people",
           what="a whole number, 1 or more: the rows of one person that are used", metavar="N", curator=_COUNTS,
           help="rows of one person that are used (default 1)"),
    Option("k_max", "local.formula plan", "fit plan", "whole", low=1, high=1000,
           what="a whole number, 1 to {high:,}: the rows of one person that its report holds", group="people",
           metavar="K", curator=_COUNTS,
           help="with id=: a person's first K rows are one report, at mu"),
    Option("icc", "plan", "plan", "number", 0.0, low=-_TINY, high=1.0, what="a number in [0, 1)", group=EXPECTED,
           metavar="R", help="correlation of residuals of one person's rows, with --k-max (default 0)"),
    Option("per_person", "local.formula", "fit", "choice", "sum", ("sum", "mean"), group="people", metavar="HOW",
           curator=_COUNTS, help="of a person's rows: sum (default) counts rows alike, mean people"),
    Option("weights", "local.formula", "fit", group="people", metavar="COLUMN",
           curator="goes with people's reports, which are multiplied by them; leave it out",
           help="column of survey weights, with --bounds 0:largest"),
    Option("cluster", "local.formula", "fit", group="people", metavar="COLUMN", curator=_COUNTS,
           help="column of clusters of people who may be alike, with --levels: intervals are between random groups"),
    Option("missing", "local curator means silos", "fit means", "choice", "noise", ("noise", "raise", "drop"),
           group="people", metavar="M",
           help="records that can't be used (a value missing, no number or not declared): noise (default) sends noise "
           "for them, raise refuses them, which tells about rows, drop leaves them out, which reveals who answered"),
    # --- fit -------------------------------------------------------------------------------------------------
    Option("tuning", "local.run", "fit", "choice", "efficient", ("efficient", "published"), group="fit",
           help="efficient (default) or published", curator=_REPORTS),
    Option("inference", "local.run", "fit study", "names", "auto", _METHODS, group="fit", metavar="M[,M]",
           curator=_REPORTS, help=f"{', '.join(_METHODS)} (with --tuning published), or none; the first gives the "
           "standard errors (default: what suits the tuning)"),
    Option("batch_size", "local.run", "fit", "whole", low=1, high=10**9, what=_COUNT.format(what="people"), group="fit",
           metavar="B", help="with --tuning published: records asked at the same iterate (default 1)"),
    Option("lanes", "local.run", "fit study", "whole", low=1, high=64, what="a power of two from 8 to {high}",
           group="fit", metavar="K",
           help="random groups, which answer slightly different states: 8, 16 (default), 32 or 64"),
    Option("rounds", "local.run", "fit study", "whole", 20, low=10, high=100, group="fit", metavar="R",
           curator=_REPORTS, what="a whole number of public states, {low:,} to {high:,}",
           help="public states in all: for moments, the pilot and main rounds (default 20, to which a few may come)"),
    Option("threads", "local.run", "fit", "whole", low=1, high=256, what=_COUNT.format(what="threads"), group="fit",
           metavar="T", help="processor threads that play the devices", curator=_REPORTS),
    Option("order", "local.fit", "fit", "choice", None, ("random", "position"), group="fit", metavar="O",
           help="random (default where rows can be addressed) reads blocks of rows in random order, position as they "
           "lie"),
    Option("step", "local.run", "fit", "number", what="a number above 0", group="fit", metavar="GAMMA",
           help="with --tuning published: size of the steps, above 0"),
    Option("alpha", "local.run", "fit", "number", high=1.0, what="a number in (0, 1)", group="fit", metavar="A",
           shell="step-exponent", help="with --tuning published: decay of the steps, in (0.5, 1) for intervals",
           curator=_REPORTS),
    Option("start_params", "local.run", curator=_REPORTS),
    Option("rows", "local", "fit study", "whole", low=1, high=10**15, what="a whole number of people, 1 or more",
           group="fit", metavar="N", help="how many records will come; those of the file are counted by default",
           curator="is for streams, and a curator counts the rows; leave it out"),
    Option("measures", "local.run", "fit study", "number", high=0.5, what="a number in (0, 0.5)", group="fit",
           metavar="SHARE", curator=_REPORTS,
           help="share of the records, the last ones, that report how well the fit predicts instead of a score; "
           "0.05 gives a private R², deviance explained, accuracy or the like"),
    Option("perturbation", "curator.fit", "", "choice", "gradient", ("output", "gradient")),
    Option("order", "curator.fit", choices=("full", "poisson", "permuted", "sampled")),
    Option("epochs", "curator.fit", "", "whole", low=1, high=10**6,
           what="a whole number of passes over the records, 1 to {high:,}"),
    Option("step", "curator.fit", "", "number", high=1e100, closed=True,
           what="a positive number, the size of every step in internal units"),
    Option("radius", "curator.fit", "", "number", "auto", high=1e100, closed=True,
           what="a positive number (of internal units), 'auto', or None for no projection"),
    Option("lanes", "curator.fit", "", "whole", low=1, high=1000,
           what="a whole number of disjoint parts of the records, 1 to {high:,}"),
    Option("average", "curator.fit", "", "number", 0.5, high=1.0, closed=True,
           what="the share of the iterates that are averaged, in (0, 1]"),
    Option("batch_size", "curator.fit", "", "whole", low=1, what="records a step, 1 to {high:,}"),
    Option("rounds", "silos", "", "whole", 20, low=1, high=100_000, what="a whole number, 1 to {high:,}"),
    Option("local_steps", "silos", "", "whole", 5, low=1, high=100_000, what="a whole number, 1 to {high:,}"),
    Option("step", "silos", "", "number", "auto", low=_TINY, high=1e12, closed=True,
           what="a positive number (1e-12 to 1e12), or 'auto'"),
    Option("clip", "silos", "", "number", "auto", low=_TINY, high=1e12, closed=True,
           what="a positive number (1e-12 to 1e12), or 'auto'"),
    Option("batch_size", "silos", "", "whole", low=1, high=10**9, what="a whole number, 1 to {high:,}"),
    Option("weights", "silos"),
    Option("beta", "silos", default=1.0),
    Option("magnitude_share", "silos", "", "number", 0.1, high=1.0,
           what="a number in (0, 1): the magnitude's part of mu²"),
    Option("debias", "silos", "", "flag", True, what="True or False"),
    Option("seed", "local.run curator.fit means.run silos.fit", "fit means", "whole", high=2**64 - 1, group="fit",
           what="a whole number, 0 or more and below 2**64 (or None for private noise)", metavar="S",
           help="reproducible noise, for simulation only: protects nobody"),
    Option("progress", "local.fit curator.fit means.fit silos.fit", "", "flag", what="True, False or None"),
    Option("client", "local.fit", curator=_REPORTS),
    Option("checkpoint", "local.fit", "fit", group="long fits", metavar="FILE", curator=_STOPPED,
           help="keep the fit in FILE on the way: after a kill or Ctrl-C the same command goes on from there, to the "
           "same bits; FILE holds a noise key and is removed at the end. Continue only what you saved: it chooses the "
           "noise"),
    Option("checkpoint_rows", "local.fit", "fit", "whole", low=1, what="a whole number of rows, at least 1",
           group="long fits", metavar="N", curator=_STOPPED, help="keep it after so many rows at the latest"),
    Option("checkpoint_seconds", "local.fit", "fit", "number", closed=True, what="a positive number of seconds",
           group="long fits", metavar="S", curator=_STOPPED,
           help="keep it after so many seconds at the latest (default 30)"),
    Option("mended", "local.fit", "fit", "flag", False, what="True or False", group="long fits", curator=_REPORTS,
           help="after an error in the rows: the file has changed since, but not the rows already read"),
    Option("checkpoint_trust", "local.fit", "fit", group="long fits", metavar="KEYFILE",
           curator=_STOPPED,
           help="go on with a checkpoint of yours from another machine: KEYFILE is a copy of your secret there "
           "(~/.local/share/privreg/secret, or what PRIVREG_SECRET names)"),
    # --- what is shown ---------------------------------------------------------------------------------------
    Option("alpha", "plan", default=0.05),
    Option("coef", "plan"),
    Option("coef", "", "plan", group="output", metavar="NAME", help="coefficient of tables and of the plot"),
    Option("level", "", "fit means show plan", "number", 0.95, high=1.0, what="in (0, 1); 0.95 gives 95% intervals",
           group="output", metavar="L", help="of intervals and tests (default 0.95)"),
    Option("at_n", "", "plan", group="output", metavar="N,...", help="table of widths at these sample sizes"),
    Option("at_mu", "", "plan", group="output", metavar="MU,...", help="and at these budgets"),
    Option("check", "", "plan", "whole", group="output", metavar="R",
           help="fit R simulated samples and compare"),
    Option("seed", "", "plan", "whole", group="output", metavar="S", help="of --check"),
    Option("compare_trust", "", "plan", "flag", group="output",
           help="and the same question under each trust model: people's devices, two collectors, a curator"),
    Option("compare_families", "", "plan", "flag", group="output",
           help="and the same question of each family for numbers, or counts"),
    Option("plot", "", "plan", group="output", metavar="FILE",
           help="picture of widths over budgets and sample sizes: .png, .pdf, .svg"),
    Option("simultaneous", "", "fit show", "flag", group="output",
           help="widen the intervals so that all of them hold together"),
    Option("exponentiate", "", "fit show", "flag", group="output",
           help="show exp(coefficient): odds and rate ratios"),
    Option("out", "", "fit means show", "files", group="output", metavar="FILE",
           help="also write .txt, .html, .md, .docx, .tex, .csv, .json or .privreg; repeatable"),
    Option("quiet", "", "fit means show", "flag", group="output",
           help="print nothing but errors and warnings; needs --out"),
)
# fmt: on
"""Every option, in the order in which help and messages list them."""


@cache
def accepted(door: str) -> dict[str, Option]:
    """What a front door takes, by name."""
    return {o.name: o for o in TABLE if o.takes(door)}


@cache
def of_verb(verb: str) -> tuple[Option, ...]:
    """What a verb of the command line takes."""
    return tuple(o for o in TABLE if verb in o.verbs.split())


def find(door: str, name: str) -> Option:
    """The option of a name that a front door takes."""
    return accepted(door)[name]


def check(door: str, name: str, value: Any, high: int | None = None) -> Any:
    """Return what a front door was given for an option, if it may be that; see `Option.check`."""
    return accepted(door)[name].check(value, high=high)
