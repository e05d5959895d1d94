"""The style of all figures: colours that everybody can distinguish, sizes of a journal's columns, footers."""

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from privreg.base.optional import need
from privreg.errors import OptionError, shown
from privreg.results.data import ResultData
from privreg.results.statement import PrivacyStatement
from privreg.tables import plain, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = Any  # of matplotlib, an extra, which is imported on use

COLUMN: Final = 3.5  # Width in inches of one column of a journal; two of them are as wide as a figure gets
# Different in lightness in grey and by hue for colour-blind readers; markers differ as well.
COLOURS: Final = ("#0b3c6f", "#d55e00", "#009e73", "#e69f00", "#56b4e9", "#cc79a7")
MARKERS: Final = ("o", "s", "^", "D", "v", "P")
DASHES: Final = ("-", "--", "-.", ":")
GREY: Final = "#666666"
# Hues on dark grounds, which a user's style may have.
_ON_DARK: Final = ("#a9d1ff", "#f0803c", "#2fbf93", "#f2c14e", "#4f97e0", "#dc9bc0")
_GREY_ON_DARK: Final = "#adadad"
CONSTANTS: Final = ("Intercept", "const")  # Names of the constant, in formulas and arrays
SMALL: Final = 7.0
TEXT: Final = 8.0
DPI: Final = 150  # Dots per inch of figures, at least: at matplotlib's 100 a column's width has letters of ten dots
STYLE: Final = {
    "font.size": TEXT,
    "axes.titlesize": TEXT,
    "axes.labelsize": TEXT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
}


@contextmanager
def placed(
    ax: Any, shape: tuple[int, int], size: tuple[float, float], what: str, title: str | None = None, **more: Any
) -> Iterator[NDArray[Any]]:
    """Axes to draw on, with a title: a user's for `what`, shape (k,), or a new figure's of a shape and size, inches."""
    if title is not None and not isinstance(title, str):
        raise OptionError(f"title={shown(title)} must be a text.")
    if ax is None:
        plt = need("matplotlib.pyplot", "plot", "a plot")
        # loads the backend now: loaded inside, leaving the context would undo a notebook's interactive mode, which the
        # backend sets, and every figure but the first would stay unseen
        plt.draw_if_interactive()
        with plt.rc_context({**STYLE, "figure.dpi": max(plt.rcParams["figure.dpi"], DPI)}):
            figure, grid = plt.subplots(*shape, figsize=size, layout="constrained", squeeze=False, **more)
            for panel in grid.flat:
                # ticks made at drawing time would take the global sizes again
                panel.tick_params(which="both", labelsize=SMALL, width=0.6)
            yield grid
            if title is not None:
                figure.suptitle(literal(title), fontsize=TEXT + 1)
        return
    given, wanted = np.asarray(ax, dtype=object).ravel(), math.prod(shape)
    if not all(hasattr(panel, "get_xlim") for panel in given):
        raise OptionError(f"ax={shown(ax)} must be Axes of matplotlib, as plt.subplots() gives, or be left out.")
    if len(given) != wanted:
        raise OptionError(f"ax has {len(given)} axes for {what}; give one Axes each, or leave it out.")
    yield given
    if title is not None and isinstance(ax, Sequence | np.ndarray):
        raise OptionError("title= is for a figure that is made here, or one Axes; give each of several set_title().")
    if title is not None:
        ax.set_title(literal(title), loc="left")


@contextmanager
def drawing(ax: Any, size: tuple[float, float], footer: str, title: str | None = None) -> Iterator[Any]:
    """Axes to draw on, a user's or those of a new figure of that size in inches, with a footer and a title."""
    with placed(ax, (1, 1), size, "one panel", title) as axes:
        yield axes.flat[0]
        add_footer(axes.flat[0], footer, size[0] if ax is None else None)


def each_drawn(
    draw: Callable[[str, Any], str], terms: list[str], title: str | None, ax: Any, size: tuple[float, float]
) -> Any:
    """Draw coefficients by `draw`, which gives a footer: one on an Axes, several on an array of them.

    `size` is that of one panel, in inches.
    """
    k = len(terms)
    with placed(ax, (k, 1), (size[0], size[1] * k), f"{k} coefficients", title) as axes:
        for term, on in zip(terms, axes.flat, strict=True):
            add_footer(on, draw(term, on), size[0] if ax is None else None)
    return axes.flat[0] if k == 1 else axes.ravel()


class Inks(NamedTuple):
    """Colours to draw with on given axes: those of curves, one after the other, and that of what stands back."""

    colours: tuple[str, ...]
    grey: str

    def __getitem__(self, i: Any) -> Any:
        return self.colours[i % len(self.colours)]


def inks_for(ax: Any, *, outside: bool = False) -> Inks:
    """Colours that are seen on the ground of the axes, or `outside` them, whatever the user's style is."""
    dark = ground(ax, outside=outside) @ (0.299, 0.587, 0.114) < 0.5
    return Inks(_ON_DARK, _GREY_ON_DARK) if dark else Inks(COLOURS, GREY)


def ground(ax: Any, *, outside: bool = False) -> NDArray[Any]:
    """Colour of the ground of the axes, or `outside` them."""
    from matplotlib.colors import to_rgba

    ground = np.array([1.0, 1.0, 1.0])
    grounds = [ax.figure.get_facecolor()]
    for patch in grounds if outside else [*grounds, ax.get_facecolor()]:
        *colour, alpha = to_rgba(patch)
        ground = alpha * np.array(colour) + (1 - alpha) * ground
    return ground


def literal(text: str) -> str:
    """Text in which a dollar sign starts no formula."""
    return text.replace("$", r"\$")


def folded(name: str, width: int, lines: int) -> str:
    """A name in at most so many lines of at most `width` characters; one line with an ellipsis where they won't do."""
    out = [""]
    for piece in re.split(r"(?<=[\s:,_)\]])|(?=[\[(])", name):
        out = [*out[:-1], out[-1] + piece] if len(out[-1] + piece) <= width else [*out, piece]
    out = [part for part in out if part]
    if len(out) > lines or max(map(len, out)) > width:
        return shorten([name], width)[0]
    return "\n".join(out)


def guarantee(statements: Sequence[PrivacyStatement]) -> str:
    """Name the guarantees, each once; of one result also that of all releases from its data."""
    each = list(dict.fromkeys([s.short for s in statements] if len(statements) > 1 else [statements[0].headline]))
    return f"per person: {', '.join(each)}" if len(each) > 1 else each[0].replace("-GDP", "-GDP per person", 1)


def baselines(fits: Sequence[ResultData]) -> list[str]:
    """Levels that coefficients of multinomial results are relative to."""
    words = dict.fromkeys(f"baseline {f.design.endog_name} = {f.baseline[0]}" for f in fits if f.baseline)
    return [literal(plain(w)) for w in words]


def add_footer(ax: Any, text: str, width: float | None) -> None:
    """Small grey text, each line wrapped: under the label of the x axis of a figure that is made here, of `width`
    inches; above axes that are a user's, whose figure may have no room below.
    """
    letters = max(int(16 * ax.bbox.x1 / ax.figure.dpi), 12) if width is None else int(width * 15)
    text = "\n".join(textwrap.fill(line, letters) for line in text.split("\n"))
    look = {"fontsize": SMALL, "color": inks_for(ax, outside=True).grey}
    if width is None:
        ax.set_title(text, loc="right", **look)
    else:
        where = {"xy": (1, 0), "xycoords": (ax.transAxes, ax.xaxis.label), "textcoords": "offset points"}
        ax.annotate(text, **where, xytext=(0, -3), ha="right", va="top", **look)


_LETTER: Final = 0.6 * SMALL / 72  # Width of a letter in inches, about
_GAP: Final = 1.4  # Letters between two labels, at least
_ENOUGH: Final = 3  # Labels of an axis that will do
_NEAR: Final = 0.06  # Part of the axis' length about a marked label in which no other has room


def compact(n: float) -> str:
    """Write a count in few characters, as in 500, 20k or 3M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= unit:
            return f"{n / unit:g}{letter}"
    return f"{n:g}"


def ticks(least: float, most: float, inches: float, write: Callable[[float], str] = compact) -> list[float]:
    """Round numbers on a logarithmic axis of so many inches: the fewest that are three, else as many as have room.

    Examples
    --------
    >>> [compact(n) for n in ticks(2e3, 150e3, 2.5)]
    ['3k', '10k', '30k', '100k']
    """
    from matplotlib.ticker import MaxNLocator

    best, span = [least], math.log(most / least)
    powers = 10.0 ** np.arange(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1.0)
    choices: list[Any] = [np.outer(powers, of).ravel() for of in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0))]
    choices += [MaxNLocator(n).tick_values(least, most) for n in range(1, 12)]
    for choice in choices if span > 0.0 else ():
        inside = [float(n) for n in choice if least <= n <= most]
        room = _LETTER * (max((len(write(n)) for n in inside), default=0) + _GAP)
        gaps = (inches * math.log(b / a) / span for a, b in pairwise(inside))
        if len(inside) > len(best) and all(gap >= room for gap in gaps):
            best = inside
        if len(best) >= _ENOUGH:
            break
    return best


def log_axis(ax: Any, write: Callable[[float], str], least: float, most: float, *, marked: float | None = None) -> None:
    """Label a logarithmic x axis by plain numbers, `marked` among them: matplotlib's are powers of ten."""
    found = ticks(least, most, ax.bbox.width / ax.figure.dpi, write)
    if marked is not None and least <= marked <= most:
        space = _NEAR * math.log(most / least)
        found = [*(n for n in found if abs(math.log(n / marked)) > space), marked]
        ax.set_xticks([], minor=True)
    ax.set_xticks(found, [write(n) for n in found])
    ax.xaxis.set_minor_formatter("")


def curves(
    times: Any, names: Sequence[str], lines: Any, said: tuple[float, str, Sequence[str]], labels: tuple[str, str],
    title: str | None, ax: Any, *, steps: bool = False,
) -> Axes:  # fmt: skip
    """Draw survival curves with their bands, steps or lines through points.

    `lines` has a curve and both ends of its band for each name; `said` is the level of the bands, the guarantee and
    notes, and `labels` are those of the horizontal axis and of the legend.
    """
    footer = f"{100 * said[0]:.6g}% bands of whole curves; " + "\n".join([said[1], *said[2][:1]])
    with drawing(ax, (1.2 * COLUMN, 0.8 * COLUMN), footer, title) as on:
        inks = inks_for(on)
        for g, (name, (line, low, high)) in enumerate(zip(names, lines, strict=True)):
            drawn = "steps-post" if steps else "default"
            on.plot(times, line, color=inks[g], drawstyle=drawn, linestyle=DASHES[g % 4], label=literal(name))
            on.fill_between(times, low, high, step="post" if steps else None, color=inks[g], alpha=0.15, linewidth=0)
        on.set(xlim=(0.0, times[-1]), ylim=(0.0, 1.05), ylabel="survival")
        on.set_xlabel(literal(labels[0]))
        if len(names) > 1:
            on.legend(title=literal(labels[1]))
    return cast("Axes", on)
