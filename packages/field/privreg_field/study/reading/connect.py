"""`privreg.connect` and `privreg results`: a study collected elsewhere, whose plan is verified by the analyst's key.

Of a plan with several analyses each is a study by itself, under its name.
"""

import argparse
import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pandas as pd

from privreg.errors import InferenceError, OptionError, PrivregError, ReliabilityWarning, StudyError, choose
from privreg.means.results.shares import TableOne
from privreg.options.spelling import in_study
from privreg.results.several.meta import MetaAnalysis, meta_analysis
from privreg.tables import as_text, respelt
from privreg_field.device.client import invitation
from privreg_field.device.consent import plain
from privreg_field.study import keys
from privreg_field.study.reading.picture import live
from privreg_field.study.reading.shared import SharedStudy
from privreg_field.study.reading.study import Shown, Study, StudyModel
from privreg_field.study.running import done, parser_of
from privreg_field.study.servers import Server, opened, token_of
from privreg_field.wire import wire
from privreg_field.wire.study import alike, read_plans
from privreg_field.wire.wire import MessageError, base


class Studies(Shown):
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
        return self._named(name)._warned()

    def table(self, name: str | None = None) -> TableOne:
        """The table of the analysis with this name, which is one; see `Study.table`."""
        return self._named(name).table()

    def combined(self) -> MetaAnalysis:
        """Estimates of a study in parts (``parts: 16``), combined so that few people who lie can't spoil them.

        Each person answers one part, so that k liars are in k parts at most. Hodges and Lehmann's estimate of the parts
        is moved by them by about √3·k/√m of its standard error, whatever they send, while k is below 29% of m parts. A
        part that has no estimates is left out.

        Raises
        ------
        StudyError
            If the analyses are not one model's, of different people.
        InferenceError, OptionError
            If fewer than two parts have estimates yet.

        See Also
        --------
        privreg.meta_analysis
        """
        if not alike([part.signed for part in self._parts.values()]):
            raise StudyError("only a study with parts: has estimates of one model by different people, to combine.")
        found: dict[str, Any] = {}
        for name, part in self._parts.items():
            with contextlib.suppress(InferenceError):
                one = part._estimated()
                found |= {name: one} if len(one.bse) else {}  # an error where there are none yet
        if len(found) < 2:
            raise InferenceError("fewer than two parts of the study have estimates yet; wait for more reports.")
        return meta_analysis(found, method="hodges_lehmann")

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
            out.append((name, f"{what}; {lines['Guarantee']}; reports: {lines['Reports']}; round {lines['Round']}"))
        return out


def connect(
    url: str | Sequence[str], token: str | Path | Sequence[str | Path] | None = None, *, key: str | None = None
) -> Study | Studies:
    """Connect to a study whose reports are collected elsewhere.

    Parameters
    ----------
    url : str, or a list of two
        Address of the study, as in its invitations: https://host/studies/{name}/#k={key}. Of a study with two
        collectors the addresses at both.
    token : str or path, or a list of two, optional
        The analyst's token, or the file that `privreg serve` wrote it to: what is verified needs it also where results
        are public. Of two collectors theirs, in order, or one for both.
    key : str, optional
        Public key that has signed the plan, or its file, such as root.key.pub, where no address has one.

    Returns
    -------
    Study, or Studies if the plan has several analyses

    Raises
    ------
    OptionError
        If an address is none of a study, or nothing says which key signs its plan; if a study with two collectors is
        given one address, or one server twice, or another study two.
    StudyError
        If a server can't be reached, or says what it can't have signed, or two say different things.

    Examples
    --------
    >>> study = pr.connect("https://study.example.org/studies/sleep/#k=N3Z...", token="...")  # doctest: +SKIP
    >>> study.results().summary()                                                               # doctest: +SKIP
    >>> pr.connect([url_a, url_b], token=["a.analyst", "b.analyst"])                            # doctest: +SKIP
    """
    urls = [url] if isinstance(url, str) else list(url)
    tokens = [token] * len(urls) if token is None or isinstance(token, str | Path) else list(token)
    if len(urls) not in {1, 2} or len(tokens) != len(urls):
        raise OptionError(
            "give the address of a study, or those of its two collectors; and one token, or one for each."
        )
    try:
        invited = [invitation(one) for one in urls]
        roots = {keys.given(key, "key")} if key else {wire.unbase(one.key, "the key") for one in invited if one.key}
    except ValueError as e:
        raise OptionError(str(e)) from None
    if len(roots) != 1 or len(*roots) != wire.KEY:
        raise OptionError("give the one public key that has signed the plan: key=..., or an address with #k=...")
    if len({one.base for one in invited}) < len(urls):
        raise OptionError("both addresses are one server's; the study's two collectors have one each.")
    (root,), servers = roots, [Server(one.base, token_of(t)) for one, t in zip(invited, tokens, strict=True)]
    payloads = [opened(one.get("plan"), "plan", (root,)) for one in servers]
    if len(set(payloads)) > 1:
        raise StudyError("the two servers have different plans, so that they are not the collectors of one study.")
    try:
        plans = read_plans(payloads[0])
    except MessageError as e:
        raise StudyError(f"devices would refuse the plan: {e}") from None
    signed = plans[0]
    if any(one.slug != signed.study for one in invited):
        raise StudyError("the plan is one of another study.")
    names = " and ".join(f"{one.name} at {one.url}" for one in signed.collectors)
    if signed.collectors and len(urls) == 1:
        raise OptionError(f"the study has two collectors, {plain(names)}: give the addresses of both, [..., ...].")
    if not signed.collectors and len(urls) == 2:
        raise OptionError("the study's devices add the noise, and one server collects reports; give its address alone.")
    if any(root in (one.key, one.seal) for one in signed.collectors):
        raise StudyError("the analyst's key is that of one of the study's two collectors, who must be others.")
    make = SharedStudy if signed.collectors else Study
    parts = {
        plan.part.name: make([one._replace(base=one.base + plan.path) for one in servers], plan, payloads[0])
        for plan in plans
    }
    return Studies(parts) if signed.part.name else parts[""]


_VIEWS: Final = (".txt", ".html", ".md", ".docx", ".tex")  # Endings of files that hold the summary, for reading


def main(arguments: Sequence[str], prog: str = "privreg results") -> int:
    """Run the command; 0 done, 2 an error that the message explains."""
    return done(parser_of("results", prog), arguments, _run)


def _run(a: argparse.Namespace) -> str:
    if a.key is None and not any(map(_pinned, a.url)):
        raise OptionError("give --key, the public key that has signed the plan, or an address with #k=...")
    key = None if a.key is None else base(keys.given(a.key, "--key"))
    tokens = [Path(file) for file in a.token or ()]
    study = connect(a.url, tokens if len(tokens) > 1 else tokens[0] if tokens else None, key=key)
    print(study, end="\n\n", flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)  # the summary says it
        names: list[Any] = (
            [a.analysis] if a.analysis is not None else list(study) if isinstance(study, Studies) else [None]
        )
        if len(names) > 1 and a.out:
            raise OptionError(f"--out is of one analysis; name it: --analysis {' or '.join(map(str, names))}.")
        for name in names[:-1]:
            print(f"{name}:\n\n{_summary(study, name)}\n")
        if len(names) > 1:
            print(f"{names[-1]}:\n")
        res: Any = study.results(names[-1])
    saved = [name for name in a.out if Path(name).suffix.lower() not in _VIEWS]
    whole = f"privreg.load({saved[0]!r}).privacy" if saved else "privreg.load(FILE).privacy, if --out FILE is given"
    summary = replace(res.summary(), whole=whole, rest="study.results().summary(details=True)")
    print(_spelt(summary))
    problems = []
    for name in a.out:  # one that can't be written doesn't cost the others
        try:
            (res if name in saved else summary).save(name)
        except PrivregError as e:
            problems.append(plain(str(e)))
    if problems:
        raise OptionError(" ".join(problems))
    return ""


def _summary(study: Any, name: str | None) -> str:
    """The summary of an analysis, or why there is none yet."""
    try:
        whole = f"privreg.load(FILE).privacy, if --analysis {name} --out FILE is given"
        return _spelt(replace(study.results(name).summary(), whole=whole))
    except InferenceError as e:
        return plain(str(e))


def _spelt(summary: Any) -> str:
    """A summary whose notes name options as a study's file has them."""
    return as_text(respelt(summary._layout(), in_study))


def _pinned(url: str) -> bool:
    """True if an address has the key itself; one that is none is refused by `connect`."""
    try:
        return invitation(url).key != ""
    except ValueError:
        return True
