"""The page of options, made from the table that front doors and the command line are made from.

``python -m docs.options`` writes it to ``docs/options.md``.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Final

from privreg.options.table import TABLE, Option, accepted, described

__all__ = ["page"]

PRODUCTS: Final = {
    "local": ("Regression from reports", "`pr.PrivateOnlineRegression`, its `from_formula`, `fit` and `start`"),
    "means": ("Means and frequencies", "`pr.means.PrivateMeans`, `pr.means.estimate`"),
    "curator": ("The published descent of a curator", '`fit(tuning="published")` with `trust="central"`'),
    "silos": ("Regression over silos", "`pr.federated.FederatedRegression`"),
    "plan": ("Sample size and power", "`pr.plan`"),
}

HEAD: Final = """\
# Options

Every option, with what it is for, what it may be, and its default. In Python options are keywords: `mu=1`. The command
line has most of them too: `max_per_id=3` is `--max-per-id 3` there, and `bounds={"age": (18, 65)}` is
`--bounds age=18:65`.
"""

KINDS: Final = {
    "pairs": 'such as `{"x": (0, 1)}`',
    "levels": 'such as `{"g": ["no", "yes"]}`',
    "numbers": 'such as `{"g": (0.8, 0.2)}`',
    "coefficients": 'such as `{"x": 0.1}`',
    "sizes": 'a number for all, or by name, such as `{"x": 0.1}`',
    "budgets": 'such as `{"north": 0.5}`',
    "budget": "a number above 0, None for no privacy, or the name of a column",
}
"""What an option may be, where the table of options has no words for it."""


MORE: Final = {
    "family": "[Families](guides/models.md) has all.",
    "inference": "[Inference](guides/inference.md) compares them.",
}
"""Pages with more on an option."""


def _what(o: Option, product: str) -> str:
    """Description of an option, as docstrings have it: that of a formula's front door, or of a fit, before arrays'."""
    for stage in ("formula", "fit", "arrays"):
        if o in accepted(f"{product}.{stage}").values():
            return " ".join(described(f"{product}.{stage}", o.name)[1].split())
    return " ".join(described(f"{product}.run", o.name)[1].split())


def _may(o: Option) -> str:
    if o.choices and o.kind != "family":
        return "One of " + ", ".join(f"`{c!r}`" for c in o.choices) + "."
    text = o.what.format(low=o.low, high=o.high).replace("**", "^").replace(" to inf", " or more")
    text = text or KINDS.get(o.kind, "")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _default(value: Any) -> str:
    return "" if value is None or value == () else f"Default `{value!r}`."


def _line(o: Option, product: str) -> str:
    line = " ".join(
        part
        for part in (f"* **`{o.name}`**:", _what(o, product), MORE.get(o.name, ""), _may(o), _default(o.default))
        if part
    )
    how: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(line, 128, subsequent_indent="  ", **how)


def page() -> str:
    """The whole page, in Markdown: a list for each product, in the order of the table of options."""
    out = [HEAD]
    for product, (title, doors) in PRODUCTS.items():
        out += [f"## {title}", "", f"Options of {doors}.", ""]
        out += [_line(o, product) for o in TABLE if o.name and o.of(product)]
        out.append("")
    return "\n".join(out)


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), "utf-8")
