"""The summary: every line narrow enough, every number that of tidy(), every name escaped."""

import dataclasses
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats import t as student

from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import RandomScaling
from privreg.errors import InferenceError, OptionError
from privreg.results.results import PrivateResults
from privreg.tables import in_one_format, shorten, tex
from privreg.tables.diagnostics import Diagnostic, for_reading
from tests.helpers import NAMES, array_model, people

NASTY = "C(g_1, Treatment('a'))[T.<b>&50%^#$~\\{x}]"


METHODS = {"efficient": ("random_scaling", "between_lanes"), "published": ("random_scaling", "plug_in")}


@pytest.fixture(scope="module", params=METHODS)
def fitted(request):
    return array_model(3000).fit(seed=1, progress=False, tuning=request.param, inference=METHODS[request.param])


@pytest.fixture(scope="module", params=METHODS)
def bare(request):
    return array_model().fit(seed=1, progress=False, inference=None, tuning=request.param)


@pytest.fixture(scope="module", params=METHODS)
def free(request):
    return array_model(mu=None).fit(progress=False, tuning=request.param)


METHOD_WORDS = {"plug_in": "plug-in", "between_lanes": "between groups"}


def changed(results, **fields):
    return PrivateResults(dataclasses.replace(results._fit, **fields))


def wide(results, p=40, scale=3, names=None):
    """`p` coefficients with names of forty characters and magnitudes from tiny to huge."""
    rng = np.random.default_rng(0)
    names = names or tuple(f"C(region_of_residence_{i:02d})[T.{'x' * 12}]" for i in range(p))
    params = -rng.normal(size=p) * 10.0 ** rng.integers(-2 * scale, 2 * scale, p)
    estimate = Estimate("random_scaling", (params * rng.uniform(0.01, 2, p)) ** 2, RandomScaling())
    title = (*results._fit.title, ("Formula", "y ~ " + " + ".join(names)))
    return changed(results, names=names, params=params, estimates=(estimate,), title=title)


def shows(cell, value):
    """Whether a cell shows a number to all of its figures."""
    figures, _, power = cell.partition("e")
    decimals = len(figures.partition(".")[2])
    return abs(float(cell) - value) <= 0.5000001 * 10.0 ** (int(power or 0) - decimals) or cell == f"{value}"


def forms(column):
    """Decimals and powers of the numbers of a column: one form if all are alike."""
    return {(len(c.partition("e")[0].partition(".")[2]), "e" in c) for c in column}


def table_lines(text):
    """Lines between the heading of the coefficients and the rule below them."""
    lines = text.split("\n")
    top = next(i for i, line in enumerate(lines) if line.split()[:1] == ["coef"])
    return lines[top + 2 : next(i for i in range(top, len(lines)) if lines[i].startswith("==="))]


def flat(text):
    return " ".join(text.split())


# --- text -------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_text_shows_the_numbers_of_tidy_and_no_others(fitted):
    rows = table_lines(fitted.summary(0.1).as_text())
    table = fitted.tidy(alpha=0.1)
    assert [r.split()[0] for r in rows] == list(table["term"]) == NAMES
    for row, (_, t) in zip(rows, table.iterrows(), strict=True):
        shown = [float(v) for v in row.replace(" † ", " ").split()[1:]]
        columns = ["std_error", "statistic", "conf_low", "conf_high"]
        assert shown[3] == pytest.approx(t["p_value"], abs=5.001e-4)
        np.testing.assert_allclose(shown[:1], t[["estimate"]].astype(float), atol=5.001e-5)
        np.testing.assert_allclose(shown[1:3] + shown[4:], t[columns].astype(float), atol=5.001e-4)


@pytest.mark.some(3)
@pytest.mark.parametrize("scale", [1, 3, 40])
def test_forty_long_names_stay_within_eighty_columns_and_apart(fitted, scale):
    results = wide(fitted, scale=scale)
    text = results.summary().as_text()
    assert max(map(len, text.split("\n"))) <= 80
    lines = table_lines(text)
    assert [line.removesuffix(" †") for line in lines[::2]] == list(results.params.index)  # each on a line of its own
    rows = lines[1::2]
    assert len(rows) == 40
    for row, value in zip(rows, results.params, strict=True):
        assert shows(row.split()[-6], value)
    assert len(forms(row.split()[-6] for row in rows)) == 1


def test_long_header_and_notes_are_wrapped_and_lost_nowhere(fitted):
    notes = (Diagnostic("remark", "a note " * 40), Diagnostic("remark", "word" * 60))
    declared = (("c" * 40, "levels " + ", ".join(f"level {i}" for i in range(60))), ("x" * 120, "bounds 0 to 1"))
    statement = dataclasses.replace(fitted.privacy, notes=notes, declared=declared)
    results = changed(wide(fitted), statement=statement)
    text = results.summary(details=True).as_text()
    assert max(map(len, text.split("\n"))) <= 80
    assert flat(notes[0]) in flat(text)
    assert declared[0][1] in flat(text)
    assert notes[1] in re.sub(r"\s", "", text)
    formula = results._fit.title[-1][1]
    assert formula.replace(" ", "") in re.sub(r"\s", "", text)


def test_every_header_entry_the_guarantee_and_what_changes_the_reading_are_printed(fitted):
    text = flat(fitted.summary(details=True).as_text())
    html = fitted.summary(details=True).as_html()
    kept = {"clamping", "unusable"}
    told = [("Guarantee", fitted.privacy.guarantee)]
    told += [(f"Public: {name}", words) for name, words in fitted.privacy.declared if name in kept]
    told = [(label, words.replace("these bounds", "the declared bounds")) for label, words in told]
    assert len(told) == 3
    for label, value in [*fitted._fit.title, *told]:
        assert f"{label}: {value.replace(', ', '; also ', 1) if label == 'Inference' else value}" in text
        assert label in html
    shown = for_reading(fitted.privacy.notes)
    assert {n.code for n in fitted.privacy.notes} - {n.code for n in shown} == {"rounding"}
    for i, note in enumerate(shown, 1):
        assert f"[{i}] {note}" in text
    whole = flat(fitted.privacy.as_text())
    assert str(fitted.privacy) == fitted.privacy.as_text()
    for label, value in fitted.privacy.rows():
        assert f"{label}: {value}" in whole
    assert all(note in whole for note in fitted.privacy.notes)


def test_the_header_names_the_method_of_the_table(fitted):
    first, second = dict(fitted._fit.title)["Inference"].split(", ")
    for again in (fitted.using(fitted.methods[1]).summary(), fitted.summary(method=fitted.methods[1])):
        assert f"Inference: {second}; also {first}" in flat(again.as_text())


def test_coefficients_are_on_the_first_screen(fitted):
    lines = fitted.summary(details=True).as_text().split("\n")
    top = next(i for i, line in enumerate(lines) if line.split()[:1] == ["coef"])
    rules = [i for i, line in enumerate(lines[:top]) if line.startswith("===")]
    assert rules[1] - rules[0] - 1 <= 6
    assert top + 1 + len(fitted.params) < 24
    assert "Estimand: " in " ".join(lines[top:])


def test_a_slim_summary_has_the_guarantee_and_what_weakens(fitted):
    whole, slim = fitted.summary(), fitted.summary(slim=True)
    assert slim.table == whole.table
    text = flat(slim.as_text())
    assert fitted.privacy.guarantee in text
    assert "Formula" not in text
    assert "Public: " not in text
    assert {n.code for n in slim.notes} <= {n.code for n in whole.notes}
    assert "seeded" in {n.code for n in slim.notes}
    assert fitted.privacy.loud in text
    for i, note in enumerate(slim.notes, 1):
        assert f"[{i}] {note}" in text
    with pytest.raises(OptionError, match="slim"):
        fitted.summary(slim="yes")


def test_a_title_of_ones_own(fitted):
    assert fitted.summary(title="Table 2").as_text().split("\n")[0].strip() == "Table 2"
    with pytest.raises(OptionError, match="title must be a text"):
        fitted.summary(title=3)


def test_ratios_are_those_of_tidy():
    res = array_model(3000, binary=True).fit(seed=1, progress=False)
    summary = res.summary(exponentiate=True)
    assert summary.table.head[0] == "exp(coef)"
    for row, (_, t) in zip(summary.table.rows, res.tidy(exponentiate=True).iterrows(), strict=True):
        assert shows(row[0], t["estimate"])
        assert shows(row[-1], t["conf_high"])
        assert shows(row[1], t["std_error"])
    assert "exp(coef) is exp(estimate)" in str(summary)


def test_tables_are_statsmodels(fitted):
    tables = fitted.summary().tables
    assert [type(t).__name__ for t in tables] == ["SimpleTable"] * 3
    data = [list(row) for row in tables[1].data]
    assert data[0][1] == "coef"
    assert [row[0].removesuffix(" †") for row in data[1:]] == NAMES
    assert "<table" in tables[1].as_html()


def test_a_summary_is_written_by_the_ending_of_its_name(fitted, tmp_path):
    summary = fitted.summary(details=True)
    hint = "All of the privacy statement: res.privacy\n"
    assert hint in summary.as_text()
    for ending, text in (
        (".txt", summary.as_text().replace(hint, "")),
        (".md", summary.as_markdown()),
        (".tex", summary.as_latex()),
    ):
        summary.save(tmp_path / f"a{ending}")
        assert (tmp_path / f"a{ending}").read_text("utf-8").rstrip("\n") == text.rstrip("\n")
        assert "res.privacy" not in text
    summary.save(tmp_path / "a.html")
    page = summary.as_html().replace(f"<p>{hint.strip()}</p>\n", "")
    assert page in (tmp_path / "a.html").read_text("utf-8")
    for ending, said in ((".pdf", r"\.docx"), (".csv", r"tidy\(\)\.save\(.table\.csv.\)")):
        with pytest.raises(OptionError, match=said):
            summary.save(tmp_path / f"a{ending}")


@pytest.mark.some(1)
def test_a_word_document_has_every_cell(fitted, tmp_path):
    docx = pytest.importorskip("docx")
    summary = fitted.summary()
    summary.save(tmp_path / "a.docx")
    document = docx.Document(str(tmp_path / "a.docx"))
    coefficients = next(t for t in document.tables if t.cell(0, 1).text == "coef")
    got = [[cell.text for cell in row.cells] for row in coefficients.rows]
    wanted = [[name, *row] for name, row in zip(summary.table.names, summary.table.rows, strict=True)]
    assert got[1:] == [[name, *(cell.replace("-", "\N{MINUS SIGN}") for cell in row)] for name, *row in wanted]
    words = " ".join(p.text for p in document.paragraphs)
    assert all(note in words for note in summary.notes)
    assert fitted.privacy.guarantee.replace("e-", "e\N{MINUS SIGN}") in [
        c.text for t in document.tables for row in t.rows for c in row.cells
    ]
    (page,) = document.sections
    assert (round(page.page_width.mm), round(page.page_height.mm)) == (210, 297)
    room = page.page_width - page.left_margin - page.right_margin
    for table in document.tables:
        assert sum(column.width for column in table.columns) == pytest.approx(room, rel=1e-3)
        assert [cell.width for cell in table.rows[0].cells][:1] == [table.columns[0].width]


def test_columns_of_a_word_table_have_room_for_their_words_and_long_ones_give_way():
    from privreg.tables.docx import LETTER, MARGIN, PAD, PAGE, _widths

    room = PAGE[0] - 2 * MARGIN
    short = _widths([["", "coef", "P"], ["coverage_level[T.Standard]", "1.5", "0.000"]], room, across=False)
    long = _widths([["Estimand", "w" * 300], ["Public: declarations", "here"]], room, across=False)
    for widths, words in ((short, "coverage_level[T.Standard]"), (long, "Public: declarations")):
        assert sum(widths) == pytest.approx(room)
        assert widths[0] >= LETTER * len(words) + 2 * PAD
    assert _widths([["w" * 300, "w" * 300]], room, across=False) == pytest.approx([0.5 * room] * 2)


def test_a_narrow_page_shows_all_numbers_below_their_names(fitted):
    page = fitted.summary().as_html()
    assert f'<table class="coef" style="--columns: {len(fitted.summary().table.head)}">' in page
    assert "@media (max-width: 36em)" in page


@pytest.mark.some(1)
def test_a_fit_in_one_line(fitted, bare):
    line = fitted.glance()
    assert len(line) == 1
    first = line.iloc[0]
    assert (first["nobs"], first["coefficients"], first["response"], first["mu"]) == (3000, 4, "y", 1.0)
    assert first["mu_total"] == fitted.privacy.release.total_mu
    assert not first["private"]  # seeded
    assert first["epsilon"] == fitted.privacy.budget.epsilon_at(first["delta"])
    assert bare.glance()["inference"][0] == "none"


@pytest.mark.some(1)
def test_levels_by_their_name_in_r(fitted):
    assert fitted.tidy(conf_level=0.9).equals(fitted.tidy(alpha=0.1))
    for wrong in (0, 1, 90, "x", float("nan")):
        with pytest.raises(OptionError, match="conf_level"):
            fitted.tidy(conf_level=wrong)
    with pytest.raises(OptionError, match="not both"):
        fitted.tidy(alpha=0.1, conf_level=0.9)


@pytest.mark.some(1)
def test_the_law_behind_t_and_p_is_named(fitted):
    method = fitted.methods[1]
    assert "t and P>|t| refer to the random-scaling limit" in flat(str(fitted.summary()))
    assert "95% critical value 2.755" in flat(str(fitted.summary()))
    law = "the standard normal; 90% critical value 1.645"
    if method == "between_lanes":
        law = f"the t distribution with 15 degrees of freedom; 90% critical value {student.ppf(0.95, 15):.3f}"
    other = fitted.summary(0.1, method=method)
    assert f"refer to {law}" in flat(str(other))
    assert "[0.05" in str(other)
    assert f"std err by {METHOD_WORDS[method]}" in str(other)
    lanes = changed(fitted, estimates=(dataclasses.replace(fitted._fit.estimates[0], pivot=RandomScaling(4)),))
    assert "random-scaling limit of 4 groups" in str(lanes.summary())


@pytest.mark.some(1)
def test_without_inference_only_estimates_are_shown(bare):
    text = bare.summary().as_text()
    assert "std err" not in text
    assert "critical value" not in text
    rows = [r.replace(" † ", " ").split() for r in table_lines(text)]
    assert [row[0] for row in rows] == list(bare.params.index)
    assert all(shows(row[1], v) for row, v in zip(rows, bare.params, strict=True))
    assert "std err" not in bare.summary().as_html() + bare.summary().as_latex()
    with pytest.raises(InferenceError, match="inference=None"):
        bare.summary(method="plug_in")


def test_results_taken_before_main_rounds_show_estimates_and_why():
    x, y = people(3000)
    res = array_model(rows=3000).start().update((y[:600], x[:600])).results()
    summary = res.summary()
    assert [r.split() for r in table_lines(summary.as_text())] == [
        [name, "†", value] for name, value in zip(res.params.index, in_one_format(res.params, 4), strict=True)
    ]
    for text in (summary.as_text(), summary.as_html(), summary.as_latex()):
        assert "std err" not in text
        assert "no intervals yet: main rounds begin after" in flat(text)
    check_latex(summary.as_latex())


@pytest.mark.some(1)
def test_a_fit_without_privacy_is_loud_in_every_form(free):
    s = free.summary()
    for text in (s.as_text(), s.as_html(), s.as_latex(), free.privacy.as_text(), free.privacy.as_html()):
        assert "NOT PRIVATE" in text


def test_a_wrong_level_is_refused_when_asked_for(fitted):
    with pytest.raises(OptionError, match="alpha"):
        fitted.summary(2)


def test_text_is_what_a_terminal_and_print_show(fitted):
    s = fitted.summary()
    assert repr(s) == str(s) == s.as_text()
    assert s._repr_html_() == s.as_html()


def test_control_characters_in_names_do_not_break_lines(fitted):
    results = wide(fitted, 2, names=("a\nb", "c\td"))
    assert [r.split()[:2] for r in table_lines(results.summary().as_text())] == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize("width", [5, 9, 24])
def test_shortened_names_fit_and_stay_apart(width):
    middles = [f"{'a' * 30}{i}{'z' * 30}" for i in range(5)]
    heads = [f"{i}{'a' * 50}" for i in range(5)]
    for names in (middles, heads, ["short", *heads]):
        out = shorten(names, width)
        assert len(set(out)) == len(names)
        assert max(map(len, out)) <= width


# --- HTML -------------------------------------------------------------------------------------------------


class Cells(HTMLParser):
    """Collects cells, and fails on tags that don't match."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.cells, self.tags = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)
        if tag in {"td", "th", "li", "p", "caption"}:
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th", "li", "p", "caption"} & set(self.open[-2:]):
            self.cells[-1] += data


def read(html):
    parser = Cells()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return parser


def test_html_is_well_formed_and_escapes_names(fitted):
    names = (NASTY, "<script>alert(1)</script>")
    results = wide(fitted, 2, names=names)
    page = read(results.summary(details=True).as_html())
    tags = {"div", "style", "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "ol", "li", "span"}
    assert page.tags <= tags
    for n, reliable in zip(names, results.tidy()["reliable"], strict=True):
        assert n + ("" if reliable else " †") in page.cells  # whole: nothing is shortened here
    numbers = [c for c in page.cells if re.fullmatch(r"-?\d+\.\d+(e[+-]\d+)?", c)]
    for _, t in results.tidy().iterrows():
        assert any(shows(c, t["estimate"]) for c in numbers)
    for label, value in [*results._fit.title, ("Guarantee", results.privacy.guarantee)]:
        assert label in page.cells
        assert value in page.cells
    shown = for_reading(results.privacy.notes)
    assert [*shown] == page.cells[-len(shown) :]
    statement = read(results.privacy.as_html()).cells
    assert all(text in statement for row in results.privacy.rows() for text in row)


def test_html_takes_its_colours_from_the_page(fitted):
    html = fitted.summary().as_html() + fitted.privacy.as_html()
    styles = re.findall(r"<style>(.*?)</style>", html, re.S)
    assert styles
    for style in styles:
        assert not re.search(r"#[0-9a-f]{3}|rgb|white(?!-space)|black", style, re.I)
        rules = re.sub(r"@media [^{]*\{", "", style)  # what holds on narrow pages alone is in the same scope
        for rule in filter(None, (r.strip() for r in rules.split("}"))):
            assert all(part.strip().startswith(".privreg") for part in rule.split("{")[0].split(","))


# --- Markdown ---------------------------------------------------------------------------------------------


def test_markdown_has_every_number_and_escapes_names(fitted):
    names = (NASTY, "a|b", "**bold**")
    results = wide(fitted, 3, names=names)
    text = results.summary(details=True).as_markdown()
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.split("\n") if line.startswith("|")]
    assert len({len(row) for row in rows}) == 1  # no name makes a cell of its own
    bare = [[re.sub(r"\\(.)", r"\1", cell).strip() for cell in row] for row in rows]
    assert [row[0].removesuffix(" †") for row in bare[2:]] == list(names)
    assert all(shows(row[1], v) for row, v in zip(bare[2:], results.params, strict=True))
    for label, value in [*results._fit.title, ("Guarantee", results.privacy.guarantee)]:
        assert f"- {label}: {value}" in re.sub(r"\\(.)", r"\1", text)
    unescaped = re.sub(r"\\.", "", "".join(row[0] for row in rows))
    assert not set("\\`*_[]<>#|~&$") & set(unescaped)


# --- LaTeX ------------------------------------------------------------------------------------------------


def environments_match(latex):
    stack = []
    for kind, name in re.findall(r"\\(begin|end)\{([\w*]+)\}", latex):
        if kind == "begin":
            stack.append(name)
        else:
            assert stack.pop() == name
    return not stack


def check_latex(latex):
    bare = re.sub(r"\\[\\{}$&#_%]", "", latex)
    depth = 0
    for c in bare:
        depth += (c == "{") - (c == "}")
        assert depth >= 0
    assert depth == 0
    assert environments_match(latex)
    assert bare.count("$") % 2 == 0
    body = bare.split("\n", 1)[1]  # the first line is a comment
    assert "#" not in body
    assert not re.search(r"(?<!\S)_|\^(?!\{)", re.sub(r"\$[^$]*\$", "", body))


def test_latex_is_balanced_and_escaped(fitted):
    latex = wide(fitted, 3, names=(NASTY, "a--b", "μ_ω")).summary().as_latex()
    check_latex(latex)
    assert r"$\mu$\_\allowbreak{}$\omega$" in latex
    assert "a-{}-b" in latex
    assert r"50\%\textasciicircum{}\#\$$\sim$\textbackslash{}\{x\}" in latex
    assert "booktabs" in latex.split("\n")[0]
    assert latex.isascii()


def test_every_number_is_in_the_latex(fitted):
    results = wide(fitted)
    latex = results.summary().as_latex()
    check_latex(latex)
    numbers = re.findall(r"& (?:\$-\$)?[\d.]+(?:e[+-]\d+)?", latex)
    shown = [c.replace("& ", "").replace("$-$", "-") for c in numbers]
    for v in results.params:
        assert any(shows(c, v) for c in shown)
    assert r"\begin{longtable}" in latex  # one page holds no forty rows
    assert r"\usepackage{longtable}" in latex.split("\n")[0]
    assert "longtable" not in fitted.summary().as_latex()


def test_lines_of_latex_end_in_names_and_never_in_numbers(fitted):
    results = wide(fitted, 3)
    title = (*results._fit.title, ("Rate", "k^-0.51, step 1,000.5 or 1e-06: 3.25 (2.5) to -1.5*2"))
    latex = changed(results, title=title).summary().as_latex()
    assert r"\allowbreak" in latex
    assert not re.search(r"[\d.,-]\s*\\allowbreak(\{\})?\s*[\d.,]", latex)
    assert not re.search(r"\\allowbreak\{\}[^\w({$\\]", latex)  # no line begins with punctuation


def test_every_special_character_has_an_escape():
    text = r"""\{}$&#_%~^<>|[]"`×√−‖ℓ·≤≥±→…²⁻ᵀωΣµ"""
    check_latex("% comment\n" + tex(text))
    assert tex(text).isascii()
    assert tex("plain words, 1.5 (ok)") == "plain words, 1.5 (ok)"


def test_decimals_can_be_chosen(fitted):
    (*_, table), _ = fitted.summary(digits=1).tables[1].data, fitted.tidy()
    assert table[1:3] == [f"{fitted.params.iloc[-1]:.1f}", f"{fitted.bse.iloc[-1]:.1f}"]
    assert fitted.summary(digits=5).tables[1].data[-1][4] == f"{fitted.pvalues.iloc[-1]:.5f}"
    with pytest.raises(OptionError, match="digits"):
        fitted.summary(digits=1.5)
