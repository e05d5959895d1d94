"""Declarations from data dictionaries of REDCap and ODK."""

import pandas as pd
import pytest

import privreg as pr
from privreg.errors import SchemaError

HEAD = (
    '"Variable / Field Name","Form Name","Field Type","Field Label","Choices, Calculations, OR Slider Labels",'
    '"Text Validation Type OR Show Slider Number","Text Validation Min","Text Validation Max"\n'
)
ROWS = """age,a,text,Age,,integer,18,99
weight,a,text,Weight,,number,,300
seen,a,text,Seen,,date_ymd,2020-01-01,2020-12-31
arm,a,radio,Arm,"0, Placebo | 1, Treatment",,,
site,a,dropdown,Site,"n, North | s, South, far",,,
ill,a,yesno,Ill,,,,
drug,a,checkbox,Drugs,"1, One | B2, Two",,,
pain,a,slider,Pain,,,,
remark,a,notes,Remark,,,,
"""


def test_a_dictionary_of_redcap_declares_ranges_dates_and_choices(tmp_path):
    path = tmp_path / "dictionary.csv"
    path.write_text("\ufeff" + HEAD + ROWS, "utf-8")
    schema = pr.Schema.from_redcap(path)
    assert schema.levels == {"arm": (0, 1), "site": ("n", "s")}
    assert schema.dates == ("seen",)
    box = {"age": (18, 99), "ill": (0, 1), "drug___1": (0, 1), "drug___b2": (0, 1), "pain": (0, 100)}
    assert {k: v for k, v in schema.bounds.items() if k != "seen"} == box


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "no data dictionary"),
        (HEAD + "x,a,text,X,,integer,low,9\n", "needs a number"),
        (None, "no such file"),
    ],
)
def test_another_file_is_refused(tmp_path, text, said):
    path = tmp_path / "dictionary.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SchemaError, match=said):
        pr.Schema.from_redcap(path)


def test_an_xlsform_declares_ranges_and_choices(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "form.xlsx"
    survey = [
        ("integer", "age", ". >= 18 and . <= 99", ""), ("decimal", "odd", ".>1 or .<0", ""),
        ("decimal", "rel", ". >= ${age} and . <= 9", ""), ("select_one sex", "sex", "", ""),
        ("select_multiple sick", "sick", "", ""), ("range", "mood", "", "start=1 end=7 step=1"),
        ("date", "day", ". >= date('2020-01-01') and . <= date('2020-12-31')", ""), ("note", "hello", "", ""),
    ]  # fmt: skip
    choices = [("sex", "f"), ("sex", "m"), ("sick", "flu"), ("sick", "cold")]
    with pd.ExcelWriter(path) as out:
        pd.DataFrame(survey, columns=["type", "name", "constraint", "parameters"]).to_excel(out, sheet_name="survey")
        pd.DataFrame(choices, columns=["list_name", "name"]).to_excel(out, sheet_name="choices")
    schema = pr.Schema.from_xlsform(path)
    assert schema.levels == {"sex": ("f", "m")}
    assert schema.dates == ("day",)
    box = {"age": (18, 99), "mood": (1, 7), "sick/flu": (0, 1), "sick/cold": (0, 1)}
    assert {k: v for k, v in schema.bounds.items() if k != "day"} == box
    pd.DataFrame({"a": [1]}).to_excel(path)
    with pytest.raises(SchemaError, match="can't be read"):
        pr.Schema.from_xlsform(path)
