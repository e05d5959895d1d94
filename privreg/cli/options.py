"""What the command line understands: verbs, options, help, and the spelling of public declarations.

Needs the standard library only, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

from privreg.cli import means, plan, schema
from privreg.cli.readers import OWN, add_declarations, as_meant, check_spaces
from privreg.errors import OptionError, nearest
from privreg.version import __version__

__all__ = ["DATA_SETS", "parsers", "spread"]

_MAIN_HELP: Final = """\
Regression with inference under local differential privacy: every person's
record is randomised once, and all that is published is as private as the
budget says.
"""
_MAIN_EXAMPLES: Final = """\
examples:
  privreg data us-insurance --rows 1000000 people.csv
  privreg fit "charges ~ age + bmi + smoker" people.csv --mu 1 \\
      --bounds age=18:65 bmi=18:50 charges=0:35000 --levels smoker=no,yes
  privreg plan "charges ~ age + smoker" --mu 1 --width age=20 --scale 2500 \\
      --bounds age=18:65 charges=0:35000 --levels smoker=no,yes
  privreg schema check people.parquet schema.yaml
  privreg experiment --list
  privreg fit --help

exit status: 0 done, 2 an error that the message explains, 130 interrupted.
"""
_FIT_USAGE: Final = "privreg fit FORMULA DATA --mu MU --bounds NAME=LOW:HIGH ... [--levels NAME=A,B ...] [options]"
_FIT_HELP: Final = """\
Fit a regression to a CSV, Parquet or Feather file, or to a folder of Parquet
files, one person a row, and print the summary. Bounds, levels and moments are
public facts, known without looking at the rows; numbers without them need
--scaling private. A Parquet file that pandas wrote may carry them itself, in
attrs["privreg"], and then none need be given. Every run on the same people is
another release: two runs at mu cost 1.41 mu in all, and the command can't see
earlier runs.
"""
_FIT_EXAMPLES: Final = """\
examples:
  privreg fit "charges ~ age + bmi + smoker" people.csv --mu 1 \\
      --bounds age=18:65 bmi=18:50 charges=0:35000 --levels smoker=no,yes
  privreg fit "ill ~ age + C(clinic)" visits.csv --family logistic \\
      --epsilon 1 --delta 1e-6 --bounds age=18:65 --levels clinic=1,2,3 \\
      --exponentiate --out odds.html --out odds.csv
  privreg fit "y ~ x" data.csv --rho 0.5 --moments x=0:1 --bounds x=-4:4 y=-9:9 \\
      --tuning published --inference random_scaling,plug_in
  privreg fit "income ~ age + np.log(rent)" people.csv --mu 1 --scaling private
  privreg fit "charges ~ age + smoker" people.parquet --mu 1 --schema schema.yaml
  privreg fit "income ~ 1" people.csv --family quantile --tau 0.9 --epsilon 1 \\
      --bounds income=0:200000
  privreg fit "visits ~ age + smoker" people.csv --family poisson --y-max 20 \\
      --exposure years --bounds age=18:65 years=0.5:5 --levels smoker=no,yes \\
      --mu 1 --id person --max-per-id 2 --exponentiate
  privreg fit "travel ~ distance" trips.csv --family multinomial --mu 1 \\
      --bounds distance=0:50 --levels travel=car,bus,bicycle --out travel.csv

how levels are read:
  The first level is the reference. Levels that all are whole numbers (1,2,3 or
  01,02) are whole numbers, and if all are numbers (0.5,1) they are numbers, as
  pandas reads such a column. true,false in any capitals are booleans. In any
  other list every level is text. Double quotes let a level hold a comma:
      --levels 'maker="Smith, Inc.",other'

what --out writes, by suffix:
  .html     a whole page          .csv      table of coefficients
  .txt      text                  .json     table and privacy statement
  .tex      LaTeX                 .privreg  the results, for privreg.load()
"""
_DATA_HELP: Final = """\
Write a synthetic data set as CSV, or as Parquet if the file's name ends in
.parquet or .pq, and print how to fit it. A Parquet file carries its public
bounds and levels, so that they need not be given. Both data sets are
reconstructions of published examples: no row is a real person or ride.
"""
_DATA_EXAMPLES: Final = """\
examples:
  privreg data us-insurance --rows 1000000 people.csv
  privreg data us-insurance people.parquet
  privreg data us-insurance people.csv --schema schema.yaml
  privreg data ride-sharing --rows 50000 rides.csv --seed 7
"""
_EXPERIMENT_USAGE: Final = "privreg experiment NAME [--reps R] [--jobs J] [--out DIR] [--quick] | --list"
_EXPERIMENT_HELP: Final = """\
Run a published table or figure again, on simulated or reconstructed people:
seeded replications, ours under the published and under the default tuning,
beside the printed numbers. Tables and a figure go to --out, and so do single
runs: a stopped command goes on where it was when it is given again. Full-sized
experiments take minutes to days; --quick shows in seconds what they give.
"""
_EXPERIMENT_EXAMPLES: Final = """\
examples:
  privreg experiment --list
  privreg experiment xsjkh-table1 --quick
  privreg experiment xsjkh-table1 --jobs 2 --out results
  privreg experiment xsjkh-table1 --cells "p3-rho0-*" --reps 50 --out results
  privreg experiment dg-table1 --reps 20 --jobs 4 --out results

what --out holds:
  NAME.csv           one row a cell, method and number of people
  NAME-compared.csv  printed | ours, published tuning | ours, default tuning,
                     where numbers were printed
  NAME.png           the figure
  runs/NAME/         single runs, one file a cell; rerun to add what is missing

Several jobs need joblib, and figures matplotlib: pip install privreg[experiments].
"""
DATA_SETS: Final = {
    "us-insurance": (
        1_000_000,
        "charges ~ age + gender + bmi + children + smoker + medical_history + family_medical_history"
        " + exercise_frequency + occupation + coverage_level",
    ),
    "ride-sharing": (
        50_000,
        "fare ~ distance + duration + driver_rating + total_rides + vehicle_year + capacity",
    ),
}
"""Default number of rows, and formula."""


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like every other error of the command."""

    def __init__(self, **given: Any) -> None:
        # Abbreviations are off: an option added later must not change what a script says.
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **given)

    @property
    def options(self) -> tuple[str, ...]:
        """Its options."""
        return tuple(self._option_string_actions)

    def error(self, message: str) -> NoReturn:
        hint = ""
        if message.startswith("unrecognized arguments: "):
            meant = as_meant("--bounds", message.partition(": ")[2].split()[:3])
            hint = f"; write {meant}, without blanks" if meant else "; a formula with blanks goes in quotes"
        raise OptionError(f"{message}{hint} (see '{self.prog} --help').")

    def check_options(self, arguments: Iterable[str]) -> None:
        """Name the nearest option before argparse complains about what follows from a misspelt one."""
        known = list(self._option_string_actions)
        for argument in arguments:
            option = argument.partition("=")[0]
            if option == "--":
                return
            if option.startswith("--") and option not in known:
                near = nearest(option, known)
                hint = "" if near is None else f" Did you mean {near}?"
                raise OptionError(f"there is no option {option}.{hint} '{self.prog} --help' lists them all.")


_DECLARATIONS: Final = ("--bounds", "--levels", "--moments", *plan.REPEATED)


def spread(arguments: Sequence[str]) -> list[str]:
    """Repeat an option for each of its declarations, so that a file's name after them isn't taken for one.

    Examples
    --------
    >>> spread(["--bounds", "x=0:1", "y=0:2", "people.csv"])
    ['--bounds=x=0:1', '--bounds=y=0:2', 'people.csv']
    """
    out: list[str] = []
    option, first = "", False
    for at, word in enumerate(arguments):
        if option and not word.startswith("--") and (first or ("=" in word and "~" not in word)):
            out.append(f"{option}={word}")
            first = False
            continue
        if first:
            out.append(option)  # without a value: argparse refuses it
        option, first = (word, True) if word in _DECLARATIONS else ("", False)
        if first and arguments[at + 1 : at + 2] and not arguments[at + 1].startswith("--"):
            check_spaces(word, arguments[at + 1 : at + 4])
        if not option:
            out.append(word)
    return [*out, option] if first else out


def parsers() -> tuple[_Parser, dict[str, _Parser]]:
    """Build the parser of the command, and those of its verbs by name."""
    top = _Parser(prog="privreg", description=_MAIN_HELP, epilog=_MAIN_EXAMPLES)
    top.add_argument("--version", action="version", version=f"privreg {__version__}")
    verbs = top.add_subparsers(dest="verb", title="verbs", metavar="VERB")
    about = {
        "fit": "fit a regression to a file",
        "means": "estimate means and frequencies of a file's columns",
        "data": "write a synthetic data set",
        "plan": "how many people, how wide an interval or how large a budget, before any data",
        "schema": "compare a file's columns with public declarations",
        "experiment": "run a published table or figure again",
    }
    texts = {
        "fit": (_FIT_USAGE, _FIT_HELP, _FIT_EXAMPLES),
        "means": (means.USAGE, means.HELP, means.EXAMPLES),
        "data": (None, _DATA_HELP, _DATA_EXAMPLES),
        "plan": (plan.USAGE, plan.HELP, plan.EXAMPLES),
        "schema": (schema.USAGE, schema.HELP, schema.EXAMPLES),
        "experiment": (_EXPERIMENT_USAGE, _EXPERIMENT_HELP, _EXPERIMENT_EXAMPLES),
    }
    made = {
        name: verbs.add_parser(name, help=about[name], usage=usage, description=head, epilog=examples)
        for name, (usage, head, examples) in texts.items()
    }
    _fit_options(made["fit"])
    means.add_options(made["means"])
    data = made["data"]
    data.add_argument("name", metavar="NAME", help=f"{' or '.join(DATA_SETS)}")
    data.add_argument("path", metavar="PATH", help="CSV or Parquet file to write, by its suffix; replaced if it exists")
    data.add_argument("--rows", type=int, metavar="N", help="number of rows (default: 1,000,000 and 50,000)")
    data.add_argument("--seed", type=int, metavar="S", help="seed of the synthetic rows")
    data.add_argument("--schema", metavar="FILE", help="also write its public declarations, .yaml or .json")
    plan.add_options(made["plan"])
    schema.add_options(made["schema"])
    _experiment_options(made["experiment"])
    return top, made


def _experiment_options(verb: _Parser) -> None:
    verb.add_argument("name", metavar="NAME", nargs="?", help="of the experiment; see --list")
    verb.add_argument("--list", action="store_true", dest="listed", help="list the experiments and what each needs")
    verb.add_argument("--reps", type=int, metavar="R", help="replications of each cell (default: as published)")
    verb.add_argument("--jobs", type=int, default=1, metavar="J", help="processes (default 1)")
    verb.add_argument(
        "--out",
        default="experiments",
        metavar="DIR",
        help="folder of the results (default: experiments, made if missing)",
    )
    verb.add_argument(
        "--quick", action="store_true", help="a look in seconds: few replications of small cells, in DIR/quick"
    )
    verb.add_argument("--cells", nargs="+", default=[], metavar="CELL", help="some cells; * and ? stand for others")
    verb.add_argument("--again", action="store_true", help="replace stored runs instead of adding to them")


def _fit_options(fit: _Parser) -> None:
    fit.add_argument("formula", metavar="FORMULA", help='such as "charges ~ age + smoker", in quotes')
    fit.add_argument(
        "path", metavar="DATA", help="CSV, Parquet or Feather file, or folder of Parquet; only columns named are read"
    )

    g = fit.add_argument_group("budget per person (exactly one form)")
    g.add_argument(
        "--mu",
        type=_number_or_column,
        metavar="MU",
        help="Gaussian differential privacy; 1 is usual. Or a column of public personal budgets, with --mu-max",
    )
    g.add_argument("--mu-max", type=float, metavar="MU", help="the largest budget in that column")
    g.add_argument("--epsilon", type=float, metavar="E", help="pure epsilon-DP; with --delta (epsilon, delta)-DP")
    g.add_argument("--delta", type=float, metavar="D", help="with --epsilon; 1e-6 is usual")
    g.add_argument("--rho", type=float, metavar="R", help="zero-concentrated DP")
    g.add_argument("--no-privacy", action="store_true", help="no noise, for teaching and tests; the summary says so")

    g = fit.add_argument_group("public facts (repeatable, several at a time)")
    add_declarations(g)
    g.add_argument(
        "--scaling",
        default="public",
        metavar="S",
        help="public (default) or private: learn the scale of numbers not declared from privatised reports",
    )
    g.add_argument(
        "--allow-leak",
        metavar="KIND",
        nargs="+",
        action="extend",
        default=[],
        help="scale, levels: take what isn't declared from the rows; NOT private, holds the file in memory",
    )

    g = fit.add_argument_group("model")
    g.add_argument("--family", default="huber", help=f"huber (default), {', '.join([*OWN][1:])}")
    g.add_argument("--tau", type=float, metavar="T", help="level of a quantile or expectile, in (0, 1) (default 0.5)")
    g.add_argument("--y-max", type=float, metavar="Y", help="poisson: public largest count; larger ones are clamped")
    g.add_argument("--width", type=float, metavar="W", help="smoothed_hinge: where the hinge is rounded (default 1)")
    g.add_argument(
        "--c", type=_auto, metavar="C", help="huber, expectile: corner in residual scales, or auto (default)"
    )
    g.add_argument(
        "--scale",
        type=_auto,
        metavar="S",
        help="huber, expectile: public guess of the residual scale, or auto (default)",
    )
    g.add_argument("--offset", metavar="COLUMN", help="column added to the linear predictor")
    g.add_argument("--exposure", metavar="COLUMN", help="column whose log is added; its --bounds must be above 0")
    g.add_argument("--score-weights", metavar="W", help="unit, whitened or published; the tuning chooses by default")

    g = fit.add_argument_group("mechanism")
    g.add_argument(
        "--mechanism",
        default="auto",
        metavar="M",
        help="gaussian, laplace, privunit, randomized_response, or auto (default): the least noise for the budget",
    )
    g.add_argument(
        "--private",
        default="record",
        metavar="WHAT",
        help="record (default), or response: covariates are public and only the response is protected",
    )

    g = fit.add_argument_group("people")
    g.add_argument("--id", metavar="COLUMN", help="column that tells people apart, if some have several rows")
    g.add_argument("--max-per-id", type=int, metavar="N", help="rows of one person that are used (default 1)")
    g.add_argument(
        "--missing",
        default="noise",
        metavar="M",
        help="rows that can't be used (a value missing, no number or not declared): noise (default) sends noise for "
        "them, raise refuses them, which tells about rows, drop leaves them out, which reveals who answered",
    )

    g = fit.add_argument_group("fit")
    g.add_argument("--tuning", default="efficient", help="efficient (default) or published")
    g.add_argument(
        "--inference",
        default="auto",
        metavar="M[,M]",
        help="between_lanes, random_scaling, batch_means, block_bootstrap, block_bootstrap_t, anytime, plug_in, "
        "path_curvature, random_scaling_full, plug_in_central (with --tuning published), or none; the first gives the "
        "standard errors (default: what suits the tuning)",
    )
    g.add_argument("--batch-size", type=int, metavar="B", help="people asked at the same iterate (default: at most 32)")
    g.add_argument(
        "--lanes", type=int, metavar="K", help="independent chains that share the people, averaged at the end"
    )
    g.add_argument("--threads", type=int, metavar="T", help="processor threads that run the lanes")
    g.add_argument("--step", type=float, metavar="GAMMA", help="size of the steps, above 0")
    g.add_argument("--step-exponent", type=float, metavar="A", help="decay of the steps, in (0.5, 1) for intervals")
    g.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="how many people will come; those of the file are counted by default",
    )
    g.add_argument(
        "--measures",
        type=float,
        metavar="SHARE",
        help="share of the people, the last ones, who tell how well the fit predicts instead of sending a score; 0.05 "
        "gives a private R², deviance explained, accuracy or the like",
    )
    g.add_argument("--seed", type=int, metavar="S", help="reproducible noise, for simulation only: protects nobody")

    g = fit.add_argument_group("long fits")
    g.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="keep the fit in FILE on the way: after a kill or Ctrl-C the same command goes on from there, to the same "
        "bits; FILE holds a noise key and is removed at the end. Continue only what you saved: it chooses the noise",
    )
    g.add_argument("--checkpoint-rows", type=int, metavar="N", help="keep it after so many rows at the latest")
    g.add_argument(
        "--checkpoint-seconds", type=float, metavar="S", help="keep it after so many seconds at the latest (default 30)"
    )
    g.add_argument(
        "--mended",
        action="store_true",
        help="after an error in the rows: the file has changed since, but not the rows already read",
    )
    g.add_argument(
        "--trust",
        metavar="KEYFILE",
        help="go on with a checkpoint of yours from another machine: KEYFILE is a copy of your secret there "
        "(~/.local/share/privreg/secret, or what PRIVREG_SECRET names)",
    )

    g = fit.add_argument_group("output")
    g.add_argument("--level", type=float, default=0.95, help="level of the intervals (default 0.95)")
    g.add_argument("--simultaneous", action="store_true", help="widen the intervals so that all of them hold together")
    g.add_argument("--exponentiate", action="store_true", help="add exp(coefficient): odds and rate ratios")
    g.add_argument("--out", action="append", default=[], metavar="FILE", help="also write a file; repeatable")
    g.add_argument("--quiet", action="store_true", help="print nothing but errors and warnings; needs --out")


# --- reading declarations -------------------------------------------------------------------------------


def _number_or_column(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _auto(text: str) -> float | str:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor 'auto'") from None
