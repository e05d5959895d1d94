"""Tables of numbers as Word has them: each number in its own column."""

from io import BytesIO

import docx
import pytest

from privreg.tables.docx import as_docx
from privreg.tables.parts import Table

ROWS = [["1", "", "3"], ["1", "", ""], ["", "2", ""], ["", "", ""], ["1", "2", "3"]]


@pytest.mark.parametrize("facts", [(), (("n", ["1", "", ""]),)])
def test_an_empty_cell_stays_a_cell(facts) -> None:
    table = Table([f"x{i}" for i in range(len(ROWS))], ["a", "b", "c"], ROWS, facts=facts)
    made = docx.Document(BytesIO(as_docx([table]))).tables[0]
    wanted = [["", "a", "b", "c"], *([f"x{i}", *row] for i, row in enumerate(ROWS)), *([n, *v] for n, v in facts)]
    assert [[cell.text for cell in row.cells] for row in made.rows] == wanted
