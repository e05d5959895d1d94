"""The command of an analyst, `privreg study`: make a signing key, sign a plan, verify one, try all of it."""

import argparse
import getpass
import json
import math
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from privreg.base.archive import LONGEST, contents, write_bytes
from privreg.errors import OptionError, PrivregError, SchemaError, StudyError, meant
from privreg.options.spelling import in_study
from privreg.protocol.lattice import unit_of_sums
from privreg.protocol.sums import LETTERS
from privreg.results.data import Target
from privreg_field.device import ed25519
from privreg_field.device.consent import QUESTION, plain, words
from privreg_field.device.exchange import Limits
from privreg_field.study import keys
from privreg_field.study.running import done, parser_of
from privreg_field.wire.analyses import WORDS
from privreg_field.wire.study import PublicPlan, alike, plan_payload, read_plans
from privreg_field.wire.wire import MessageError, base, hash_of, key_id, open_envelope, signed_bytes

T = TypeVar("T")


def shown(data: bytes, root: bytes | None, *, rounds: bool = True) -> str:
    """A signed plan in words, with the noise of its `rounds`; `data` is its envelope.

    The public key `root` must have signed it; None looks at no signature, and says so.
    Raises StudyError if it is no plan that devices accept, or signed by another key.
    """
    try:
        envelope = open_envelope(data, "plan")
        message = signed_bytes("plan", envelope.payload)
        if root is not None and not any(ed25519.verify(root, message, sig) for _, sig in envelope.signatures):
            raise MessageError("the plan is not signed by this key; --key takes the analyst's root.key.pub.")
        plans = read_plans(envelope.payload)
        plan = plans[0]
        if any(root in (c.key, c.seal) for c in plan.collectors):
            raise MessageError("one of its two collectors has the analyst's key: they must be others.")
    except MessageError as e:
        raise StudyError(f"devices would refuse this plan: {e}") from None
    by = "not looked at: give --key" if root is None else f"by {key_id(root)}, verified"
    name = base(hash_of(envelope.payload))
    each = [_lines(one, rounds=rounds) for one in plans]
    each = [f"The first of {len(plans)} parts, all of which are alike.\n{each[0]}"] if alike(plans) else each
    lines = plain("\n\n".join([*_collectors(plan), *each]))
    return f"Plan {name}, signature {by}\n\n{lines}\n\nRespondents are told:\n\n{words(plan)}\n\n{QUESTION}"


def _collectors(plan: PublicPlan) -> list[str]:
    """The two collectors, if there are two."""
    lines: list[str] = []
    for letter, one in zip(LETTERS, plan.collectors, strict=False):
        lines += [f"Collector {letter}: {one.name}, {one.url}, {one.contact}"]
        lines += [f"  signs by {base(one.key)}", f"  is sent shares sealed to {base(one.seal)}"]
    return ["\n".join(lines)] if lines else []


def _lines(plan: PublicPlan, *, rounds: bool) -> str:
    """An analysis: roles with their noise, if `rounds`, and the design."""
    lines = []
    if plan.part.name:
        low, high = plan.part.people
        of = "everybody" if high - low == WORDS else f"{100.0 * (high - low) / WORDS:.3g}% of the people"
        lines += [f"Analysis {plan.part.name!r}: mu = {plan.mu.p / plan.mu.q:.6g}, of {of}"]
    if rounds:
        lines += [*_roles(plan), ""]
    design = f"Design: {plan.response.name} ~ {', '.join(c.name for c in plan.design)}; score: {plan.family}"
    if plan.table:
        design = f"Table: {', '.join(':'.join(block.columns) for block in plan.table)}"
    return "\n".join([*lines, design, *_target(plan)])


def _roles(plan: PublicPlan) -> Iterator[str]:
    """A line for each role: its reports, and the noise of one report, or of the sum of a round."""
    yield f"{'role':<10} {'form':<8} {'numbers':>7} {'radius':>9} {'groups':>6}  noise sd"
    for name, role in plan.roles.items():
        sd = 2.0**plan.bits / role.radius
        if plan.collectors:
            unit = role.radius if plan.table else unit_of_sums(role.form, role.numbers, role.radius)
            sd = math.sqrt(2.0) * 2.0**plan.bits / unit
        yield f"{name:<10} {role.form:<8} {role.numbers:>7} {role.radius:>9} {role.groups:>6}  {sd:.4g}"
    if plan.collectors:
        yield "noise is in a round's sum, of both collectors together; a report's norm is 1 at most"


def _target(plan: PublicPlan) -> list[str]:
    """The target of an earlier fit that a plan carries, for its collector; nothing if there is none."""
    try:
        like = json.loads(plan.model["declared"])["asked"]["like"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return []
    try:
        target = Target.from_json(like, plan.d)
    except ValueError:
        return ["Target: none that this version can read, so that no collector can begin the study"]
    if target is None:
        return []
    words = "" if target.c is None else f", threshold c = {target.c:.6g}"
    words += "" if target.reach is None else f", longest weighted row {target.reach:.6g}"
    rows = [" ".join(f"{v:>10.4g}" for v in row) for row in target.rows]
    return [f"Target: fixed, that of an earlier fit, internal units{words}; its map of covariates:", *rows]


def _password(a: argparse.Namespace) -> bytes | None:
    password = getpass.getpass("Password: ").encode() if a.password else None
    if a.password and not password:
        raise OptionError("an empty password is none; leave --password out, or give one.")
    return password


def _sign(a: argparse.Namespace) -> str:
    from privreg_field.study.declaring import declared  # which a key, or a look at a plan, can do without
    from privreg_field.study.declaring.plan import study_plans
    from privreg_field.study.declaring.precision import planned
    from privreg_field.study.tabled import TableFit

    analyses = _in_file(lambda: declared.read_study(a.file))
    about, fit, _ = analyses[0]
    trust = fit.trust if isinstance(fit, TableFit) else fit.spec.trust
    two = [c.key for c in about.collectors]
    if bool(two) == bool(a.states) and (two or trust == "local"):
        why = "both collectors that the study names sign states; leave it out" if two else "name the key of the server"
        raise OptionError(f"--states says who signs states: {why}.")
    states = two or [keys.given(k, "--states") for k in a.states]
    plans = _in_file(lambda: study_plans(analyses, states))
    out = Path(a.out) if a.out else Path(a.file).with_suffix(".plan")
    _possible(plans, {"question": about.questions, "choices": about.choices})
    root = keys.load(a.key, _password(a))
    mine = keys.public(root)
    for letter, one in zip(LETTERS, about.collectors, strict=False):
        if mine in (one.key, one.seal):
            raise OptionError(
                f"--key {a.key!r} is the key of collector {letter}, {one.name!r}, and nobody but you may have the key "
                "that signs plans: make one by privreg study key root.key, and give --key root.key."
            )
    data = keys.signed("plan", plan_payload(*plans), root)
    said = shown(data, mine, rounds=False)  # which refuses what devices would
    write_bytes(out, data, new=True)  # a plan is never overwritten
    more = f"privreg study show {shlex.quote(str(out))} has the noise of each round."
    return f"{said}\n\n{planned(analyses, plans)}Wrote {str(out)!r}; {more} Invitations pin the key {base(mine)}"


def _in_file(make: Callable[[], T]) -> T:
    """Result of reading a study's file; errors name its keys."""
    try:
        return make()
    except PrivregError as e:
        raise type(e)(in_study(str(e))) from None


def _possible(plans: Sequence[PublicPlan], said: Mapping[str, Iterable[str]]) -> None:
    """Refuse what every device would refuse, and what is said of columns that nobody would be asked about."""
    plan = plans[0]
    asked = [column.name for column in plan.columns]
    for kind, name in ((kind, name) for kind, names in said.items() for name in names):
        if name not in asked:
            raise SchemaError(
                f"{kind} {name!r}: the formula has no such column, and only its columns are asked.{meant(name, asked)}"
            )
    most = Limits().mu
    if Fraction(*plan.together) > most:
        raise OptionError(f"mu: {plan.title_of_mu} is more than devices allow by themselves; write mu: {most} or less.")
    if plan.closes < time.time():
        raise OptionError("the study closes in the past, so that no device would answer it; write a later day.")


def _run(a: argparse.Namespace) -> str:
    if a.verb == "sign":
        return _sign(a)
    if a.verb == "demo":
        from privreg_field.study.simulated.demo import KEPT, demo

        demo(a.devices, a.folder, two=a.two, analyses=a.analyses)
        done = f"Done: the results above were computed from {'noised sums' if a.two else 'reports'} alone."
        if a.folder is None:
            return f"{done} With --folder NAME all files are kept, {KEPT} among them, for privreg.load() in Python."
        if a.analyses:
            return f"{done} In Python privreg.connect(ADDRESS, token=FILE) reads a study whose servers run."
        path = str(Path(a.folder) / KEPT)
        return f"{done} Go on in Python: res = privreg.load({path!r}), then res.summary(), res.tidy(), res.conf_int()."
    if a.verb == "key":
        password = _password(a)
        if a.collector:
            key, seal = map(base, keys.make_collector(a.file, password).public)
            lines = f"key: {key}\nseal: {seal}\n"
            write_bytes(f"{a.file}.pub", lines.encode())
            return f"Wrote {a.file!r}, and {f'{a.file}.pub'!r} for the analyst, with its public keys:\n{lines}"
        public = keys.public(keys.make(a.file, password))
        write_bytes(f"{a.file}.pub", f"{base(public)}\n".encode())
        wrote = f"Wrote {a.file!r}, and {f'{a.file}.pub'!r} for operators."
        return f"{wrote} Its public key, {key_id(public)}:\n{base(public)}"
    try:
        data, root = contents(a.file, LONGEST), None if a.key is None else keys.given(a.key, "--key")
    except OSError:
        raise OptionError(f"there is no plan {a.file!r} that can be read.") from None
    return shown(data, root)


def main(arguments: Sequence[str], prog: str = "privreg study") -> int:
    """Run the command; 0 done, 2 an error that the message explains."""
    return done(parser_of("study", prog), arguments, _run)
