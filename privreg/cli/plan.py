"""The verb ``privreg plan``: people, precision or budget before any data.

Needs the standard library only until it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from privreg.cli.readers import OWN, add_declarations, budget, check_order, family, levels, numbers, pairs
from privreg.errors import DataError, OptionError

if TYPE_CHECKING:
    from privreg.planning.plan import StudyPlan

__all__ = ["EXAMPLES", "HELP", "REPEATED", "USAGE", "add_options", "run"]

REPEATED: Final = ("--width", "--effect", "--params", "--shares")
"""Options that several declarations may follow."""

USAGE: Final = "privreg plan FORMULA [--mu MU] [--n N] [--width NAME=W ...] [--effect NAME=E ...] [options]"
HELP: Final = """\
What a regression would show, before any data: the people needed for intervals
of a width or for a test with some power, what a number of people would give,
or the budget that they would need. Everything follows from public facts and
from what you expect of the people; nothing is read.
"""
EXAMPLES: Final = """\
examples:
  privreg plan "charges ~ age + smoker" --mu 1 --width age=20 --scale 2500 \\
      --bounds age=18:65 charges=0:35000 --levels smoker=no,yes
  privreg plan "charges ~ age + smoker" --mu 1 --n 200000 --scale 2500 ...
  privreg plan "charges ~ age + smoker" --n 200000 --width age=10 ...
  privreg plan "ill ~ dose" --family logistic --mu 1 --effect dose=0.2 \\
      --power 0.9 --params Intercept=-1.5 --bounds dose=0:4 --levels ill=0,1
  ... --check 20                 fit made-up people and compare
  ... --plot plan.png            width over budgets and people
  ... --at-n 1e5,1e6 --at-mu 0.5,1,2   a table of widths
"""


def add_options(verb: argparse.ArgumentParser) -> None:
    """Add what the verb takes to its parser."""
    verb.add_argument("formula", metavar="FORMULA", help='such as "charges ~ age + smoker", in quotes')
    many: dict[str, Any] = {"action": "append", "default": []}

    g = verb.add_argument_group("two of these three; the third is found")
    g.add_argument("--n", type=float, metavar="N", help="people")
    g.add_argument("--width", metavar="[NAME=]W", help="length of 95%% intervals: of that coefficient, or all", **many)
    g.add_argument("--effect", metavar="[NAME=]E", help="size of a coefficient that a test is to find", **many)
    g.add_argument("--power", type=float, metavar="P", help="with what probability (default 0.8)")
    g.add_argument("--mu", type=float, metavar="MU", help="budget per person: Gaussian differential privacy")
    g.add_argument("--epsilon", type=float, metavar="E", help="the same as pure epsilon-DP; with --delta (E, D)-DP")
    g.add_argument("--delta", type=float, metavar="D", help="with --epsilon")
    g.add_argument("--rho", type=float, metavar="R", help="the same as zero-concentrated DP")
    g.add_argument("--no-privacy", action="store_true", help="no noise, for comparison")

    add_declarations(verb.add_argument_group("public facts (repeatable, several at a time)"))

    g = verb.add_argument_group("what you expect of the people")
    g.add_argument("--scale", type=float, metavar="S", help="residual sd (default: a quarter of the response's range)")
    g.add_argument(
        "--params", metavar="NAME=B", help="coefficients (default 0); matter for logistic and its like", **many
    )
    g.add_argument(
        "--shares", metavar="NAME=A,B,...", help="how frequent a factor's levels are (default: equally)", **many
    )

    g = verb.add_argument_group("model")
    g.add_argument("--family", default="huber", help=f"huber (default), {', '.join([*OWN][1:])}")
    g.add_argument("--tau", type=float, metavar="T", help="level of a quantile or expectile, in (0, 1)")
    g.add_argument("--y-max", type=float, metavar="Y", help="poisson: public largest count")
    g.add_argument("--c", type=float, metavar="C", help="huber, expectile: corner in residual scales")
    g.add_argument("--mechanism", default="auto", metavar="M", help="as for fit")
    g.add_argument("--private", default="record", metavar="WHAT", help="record (default) or response")
    g.add_argument("--level", type=float, default=0.95, metavar="L", help="of intervals and tests (default 0.95)")

    g = verb.add_argument_group("more")
    g.add_argument("--at-n", metavar="N,...", help="table of widths at these numbers of people")
    g.add_argument("--at-mu", metavar="MU,...", help="and at these budgets")
    g.add_argument("--coef", metavar="NAME", help="coefficient of that table and of the plot")
    g.add_argument("--check", type=int, metavar="R", help="fit R samples of made-up people and compare")
    g.add_argument("--seed", type=int, metavar="S", help="of --check")
    g.add_argument("--plot", metavar="FILE", help="picture of widths over budgets and people: .png, .pdf, .svg")


def run(a: argparse.Namespace) -> int:
    """Run the verb."""
    check_order(a)
    if not 0 < a.level < 1:
        raise OptionError(f"--level {a.level:g} must lie in (0, 1); 0.95 gives 95% intervals.")
    own = argparse.Namespace(family=a.family, c=a.c, tau=a.tau, y_max=a.y_max, scale=None, width=None)
    name, options = family(own)
    given = any(v is not None for v in (a.mu, a.epsilon, a.delta, a.rho)) or a.no_privacy
    a.mu_max = None
    spent = budget(a) if given else {}

    from privreg.families.builtin import FAMILIES
    from privreg.planning.power import plan

    found = plan(
        a.formula,
        n=a.n,
        width=_sizes("--width", a.width),
        effect=_sizes("--effect", a.effect),
        power=a.power,
        **spent,
        bounds=pairs("--bounds", a.bounds, "NAME=LOW:HIGH"),
        levels=levels(a.levels),
        moments=pairs("--moments", a.moments, "NAME=MEAN:SD"),
        schema=a.schema,
        family=FAMILIES[name](**options),
        scale=a.scale,
        params={k: v[0] for k, v in numbers("--params", a.params, "NAME=B").items()} or None,
        shares=numbers("--shares", a.shares, "NAME=A,B,...") or None,
        alpha=round(1.0 - a.level, 12),
        mechanism=a.mechanism,
        private=a.private,
    )
    print(found)
    if a.at_n is not None or a.at_mu is not None:
        print(f"\n{_grid(found, a)}")
    if a.check is not None:
        print(f"\n{found.check(a.check, seed=a.seed).round(4).to_string()}", flush=True)
    if a.plot is not None:
        _draw(found, a)
    return 0


def _sizes(option: str, given: list[str]) -> Any:
    """One number for all coefficients, or numbers by name."""
    if len(given) == 1:
        try:
            return float(given[0])
        except ValueError:
            pass
    return {name: v[0] for name, v in numbers(option, given, f"NAME=NUMBER, such as {option} age=20").items()} or None


def _list(option: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"{option} {text!r} must be numbers with commas between, such as 0.5,1,2.") from None


def _grid(found: StudyPlan, a: argparse.Namespace) -> str:
    table = found.table(n=_list("--at-n", a.at_n), mu=_list("--at-mu", a.at_mu), coef=a.coef)
    body = table.to_string(float_format=lambda v: f"{v:.4g}")
    return f"mean width of the intervals of {table.attrs['coef']}\n{body}"


def _draw(found: StudyPlan, a: argparse.Namespace) -> None:
    target = Path(a.plot)
    kinds = (".png", ".pdf", ".svg")
    if target.suffix.lower() not in kinds or not target.parent.is_dir():
        raise OptionError(f"--plot {a.plot!r}: give a file in a folder that exists, named {', '.join(kinds)}.")
    import io

    from privreg.files import archive

    figure: Any = found.plot(a.coef).figure
    picture = io.BytesIO()
    figure.savefig(picture, format=target.suffix[1:].lower(), dpi=200)
    try:
        archive.write_bytes(target, picture.getvalue())
    except OSError as e:
        raise DataError(f"can't write {a.plot!r} ({e.strerror}).") from None
