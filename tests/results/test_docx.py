"""Tables of numbers as Word has them: each number in its own column."""

from io import BytesIO

import docx
import pandas as pd
import pytest

from privreg.errors import OptionError
from privreg.results.data import Frame
from privreg.tables.docx import as_docx
from privreg.tables.parts import Pairs, Table

ROWS = [["1", "", "3"], ["1", "", ""], ["", "2", ""], ["", "", ""], ["1", "2", "3"]]


@pytest.mark.some(1)
@pytest.mark.parametrize("facts", [(), (("n", ["1", "", ""]),)])
def test_an_empty_cell_stays_a_cell(facts) -> None:
    table = Table([f"x{i}" for i in range(len(ROWS))], ["a", "b", "c"], ROWS, facts=facts)
    made = docx.Document(BytesIO(as_docx([table]))).tables[0]
    wanted = [["", "a", "b", "c"], *([f"x{i}", *row] for i, row in enumerate(ROWS)), *([n, *v] for n, v in facts)]
    assert [[cell.text for cell in row.cells] for row in made.rows] == wanted


def opened(*parts):
    return docx.Document(BytesIO(as_docx(parts)))


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-1.5", "−1.5"), ("-0.1 (-3%)", "−0.1 (−3%)"), ("(-2.1)", "(−2.1)"), ("1.5e-04", "1.5e−04"), ("-inf", "−inf"),
        ("2020-12-31", "2020-12-31"), ("1-GDP", "1-GDP"), ("-", "-"), ("non-user", "non-user"),
    ],
)  # fmt: skip
def test_a_minus_is_no_hyphen_at_which_a_line_could_break(text, shown) -> None:
    made = opened(Table(["I(x -1)"], ["a"], [[text]]), Pairs([("I(x -1)", text)]))
    assert [[cell.text for cell in row.cells] for row in made.tables[0].rows] == [["", "a"], ["I(x -1)", shown]]
    assert [cell.text for cell in made.tables[1].rows[0].cells] == ["I(x -1)", shown]


def test_the_heading_of_a_long_table_stands_on_each_page_and_facts_are_below_a_rule() -> None:
    made = opened(Table(["x"], ["a"], [["1"]], facts=[("n", ["9"]), ("Family", ["Huber"])])).tables[0]
    assert [row._tr.xpath("count(.//w:tblHeader)") for row in made.rows] == [1, 0, 0, 0]
    assert [row._tr.xpath("count(.//w:tcBorders)") for row in made.rows] == [0, 0, 2, 0]


@pytest.mark.parametrize(("columns", "lying"), [(1, False), (5, False), (7, True)])
def test_a_page_lies_where_numbers_would_leave_no_room_to_names(columns, lying) -> None:
    name = "smoker[T.yes]:coverage_level[T.Standard]"
    made = opened(Table([name], ["conf_high"] * columns, [["12980.518"] * columns]))
    page, table = made.sections[0], made.tables[0]
    assert (page.page_width > page.page_height) is bool(page.orientation) is lying
    widths = [column.width.mm for column in table.columns]
    assert sum(widths) <= page.page_width.mm - 39.9
    assert widths[0] > 40.0
    assert min(widths[1:]) > 20.0


def test_a_table_of_numbers_is_saved_in_all_forms(tmp_path) -> None:
    frame = Frame({"estimate": [-1 / 3, 2.0], "std_error": [0.1, 0.2]}, index=pd.Index(["x", "z"], name="term"))
    for ending in ("txt", "md", "html", "tex", "docx", "csv"):
        frame.save(tmp_path / f"table.{ending}")
    made = docx.Document(tmp_path / "table.docx").tables[0]
    assert [cell.text for cell in made.rows[1].cells] == ["x", "−0.333", "0.100"]
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "table.csv", index_col="term"), pd.DataFrame(frame))
    assert "-0.333" in (tmp_path / "table.txt").read_text()
    with pytest.raises(OptionError, match="let pandas write"):
        frame.save(tmp_path / "table.xlsx")
