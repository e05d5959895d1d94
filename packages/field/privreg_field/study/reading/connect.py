"""`privreg.connect`: a study that somebody collects elsewhere. Its plan is verified by the analyst's key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from privreg.errors import OptionError, StudyError
from privreg_field.device.client import invitation
from privreg_field.device.consent import plain
from privreg_field.study.reading.several import Studies
from privreg_field.study.reading.shared import SharedStudy
from privreg_field.study.reading.study import Study
from privreg_field.study.servers import Server, opened, token_of
from privreg_field.wire import wire
from privreg_field.wire.study import read_plans
from privreg_field.wire.wire import MessageError


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
        Public key that has signed the plan, where no address has one.

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
        roots = {wire.unbase(key or one.key, "the key") for one in invited if key or one.key}
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
