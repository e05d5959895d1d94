"""The page of options is made from the table of options."""

import re

from docs.options import PRODUCTS, page
from privreg.options.table import TABLE
from tests.documents.test_documents import ROOT


def test_the_page_has_every_option_of_every_product():
    parts = page().split("\n## ")[1:]
    assert len(parts) == len(PRODUCTS)
    for product, part in zip(PRODUCTS, parts, strict=True):
        rows = re.findall(r"^\* \*\*`(\w+)`\*\*: (.*)", part, flags=re.MULTILINE)
        assert [name for name, _ in rows] == [o.name for o in TABLE if o.name and o.of(product)]
        assert all(re.match(r"[A-Z]", text) for _, text in rows), rows


def test_the_page_is_as_the_table_has_it():
    assert (ROOT / "docs" / "options.md").read_text("utf-8") == page(), "run python -m docs.options"
    assert "--" not in page().split("## ", 1)[1]
