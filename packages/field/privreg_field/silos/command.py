"""The command of silos, `privreg silo`: sign a plan, accept one for a silo's file, answer, print what was sent."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from privreg.base.archive import contents, write_bytes
from privreg.errors import OptionError, StudyError
from privreg.privacy.ledger import Budget
from privreg.protocol.lattice import fraction_of
from privreg_field.silos.memory import USUAL, Memory
from privreg_field.silos.plan import sign, verified
from privreg_field.silos.rounds import Fit, answer
from privreg_field.study import keys
from privreg_field.study.running import done, parser_of
from privreg_field.wire.wire import base


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    return done(parser_of("silo"), arguments, run)


def run(a: argparse.Namespace) -> str:
    """Run one of its verbs; what it prints."""
    if a.verb == "log":
        return "\n".join(Memory(a.ledger).log()) or "no plan was accepted."
    if a.verb == "answer":
        return answer(a.ledger, sys.stdin.buffer.read()).decode()
    if a.verb == "plan":
        key = keys.load(a.key)
        envelope, out = sign(a.file, key), a.out or str(Path(a.file).with_suffix(".plan"))
        write_bytes(out, envelope)
        words, public = verified(envelope, keys.public(key)).words, base(keys.public(key))
        return f"{words}\n\n{out}: signed; silos accept it with --key {public}"
    try:
        envelope = contents(a.file)
    except OSError:
        raise OptionError(f"there is no plan {a.file!r} that can be read.") from None
    root = keys.given(a.key, "--key")
    plan, data = verified(envelope, root), json.dumps([a.data, a.query] if a.query else [str(Path(a.data).resolve())])
    fit = Fit(plan, (), a.silo, data)
    print(f"{plan.words}\nSilo:      {a.silo}, with {fit.entry.rows:,} rows, whose number becomes public\n")
    if not a.yes and input("Accept this plan, once and for all its rounds? Write yes: ").strip() != "yes":
        raise StudyError("not accepted; nothing was entered.")
    most = USUAL if a.most is None else fraction_of(Budget.declare(a.most).mu)
    Memory(a.ledger).accept(envelope, root, fit.entry, data, fit.stamp, most)
    return f"{a.ledger}: accepted"
