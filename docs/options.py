"""The page of options, made from the table that front doors and the command line are made from."""

from __future__ import annotations

from privreg.options.table import TABLE, Option

__all__ = ["page"]

PRODUCTS = {
    "local": "privreg.PrivateOnlineRegression",
    "means": "privreg.means",
    "curator": "privreg.central",
    "silos": "privreg.federated",
    "plan": "privreg.plan",
}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("*", "\\*").replace("<", "&lt;")


def _row(o: Option) -> str:
    values = ", ".join(o.choices) or o.what.format(low=o.low, high=o.high) or o.kind
    default = "" if o.default is None else f"`{o.default!r}`"
    return f"| `{o.name}` | {default} | {_cell(values)} | {_cell(o.help)} |"


def page() -> str:
    """Markdown: a table for each product, in the order of the table of options."""
    out: list[str] = []
    for product, title in PRODUCTS.items():
        out += [f"## {title}", "", "| option | default | values | what it is |", "|---|---|---|---|"]
        out += [_row(o) for o in TABLE if o.name and o.of(product)]
        out.append("")
    return "\n".join(out)
