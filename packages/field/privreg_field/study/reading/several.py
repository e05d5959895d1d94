"""A study with several analyses, as its analyst sees it: each is a study by itself, under its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

import pandas as pd

from privreg.errors import OptionError, StudyError, choose
from privreg.means.results.table_one import TableOne
from privreg_field.study.reading.live import live
from privreg_field.study.reading.study import Study, StudyModel, laid_out


class Studies:
    """A study with several analyses, each a study with a name; made by `privreg.connect`."""

    answers_formulas: Final = True  # Tells `from_formula` that it is no rows

    def __init__(self, parts: Mapping[str, Study]) -> None:
        self._parts = dict(parts)

    @property
    def analyses(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(self._parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __getitem__(self, name: str) -> Study:
        return self._parts[choose("analysis", name, self.analyses)]

    def results(self, name: str | None = None) -> Any:
        """Results of the analysis with this name, of all that came by now; see `Study.results`."""
        return self._named(name)._warned(3)

    def table(self, name: str | None = None) -> TableOne:
        """The table of the analysis with this name, which is one; see `Study.table`."""
        return self._named(name).table()

    def _named(self, name: str | None) -> Study:
        if name is None and len(self._parts) > 1:
            raise OptionError(f"this study has several analyses; name one of {', '.join(map(repr, self.analyses))}.")
        return self[self.analyses[0] if name is None else name]

    def live(self, name: str | None = None, *, every: float = 2.0) -> Any:
        """Show the study in a notebook, an analysis at a time, of which one is chosen there; see `Study.live`.

        Parameters
        ----------
        name : str, optional
            The one that is shown first.
        every : float
        """
        first = self.analyses[0] if name is None else self[name].signed.part.name
        return live({n: self[n].followed for n in sorted(self, key=lambda n: n != first)}, every)

    @property
    def rounds(self) -> pd.DataFrame:
        """Reports by analysis and state; see `Study.rounds`."""
        frames = [part.rounds.assign(analysis=name) for name, part in self._parts.items()]
        whole = pd.concat(frames, ignore_index=True)
        return whole[["analysis", *whole.columns.drop("analysis")]]

    def model(self, formula: str, asked: dict[str, Any]) -> StudyModel:
        """The model of the analysis with this formula, if that is what was signed; see `Study.model`."""
        bare = "".join(formula.split())
        for part in self._parts.values():
            if not part.signed.table and "".join(part.formula.split()) == bare:
                return part.model(formula, asked)
        raise StudyError(f"no analysis has this formula; the study's are {', '.join(map(repr, self.analyses))}.")

    def _lines(self) -> list[tuple[str, str]]:
        out: list[tuple[str, str]] = []
        for name, part in self._parts.items():
            lines = dict(part._lines())
            if not out:
                signed = part.signed
                whole = f"mu = {signed.title_of_mu} per person, for all analyses together"
                if any(p.signed.part.people != signed.part.people for p in self._parts.values()):
                    whole = f"mu = {signed.title_of_mu} per person, each of whom is dealt to one analysis"
                out = [(k, lines[k]) for k in ("Study", "Purpose", "Contact", "Collectors") if k in lines]
                out.append(("Guarantee", whole))
            what = lines.get("Formula", lines.get("Table", ""))
            out.append((name, f"{what}; {lines['Guarantee']}; reports: {lines['Reports']}; state {lines['State']}"))
        return out

    def __repr__(self) -> str:
        return laid_out(self._lines())

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in self._lines())
        return f"<table><caption>A study in the field</caption>{rows}</table>"
