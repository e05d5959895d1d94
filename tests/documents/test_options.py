"""The page of options is made from the table of options."""

from docs.options import PRODUCTS, page
from privreg.options.table import TABLE


def test_the_page_has_every_option_of_every_product():
    parts = page().split("## ")[1:]
    assert len(parts) == len(PRODUCTS)
    for product, part in zip(PRODUCTS, parts, strict=True):
        rows = [line.split(" | ") for line in part.splitlines() if line.startswith("| `")]
        assert [row[0] for row in rows] == [f"| `{o.name}`" for o in TABLE if o.name and o.of(product)]
        assert rows
        assert all(len(row) == 4 for row in rows)
