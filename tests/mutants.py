"""Changes that must never pass: each breaks a promise, and the tests named beside it must notice.

``python -m tests.mutants [NAME ...] [--jobs N]`` makes each change in a copy of the tree, runs its tests there and
tells which change survived. It takes some minutes; it is run whenever tests are deleted or moved.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mutant:
    """One change: `old`, which stands once in `file`, becomes `new`; one of `tests` must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


MECHANISMS, KERNELS = "privreg/privacy/mechanisms.py", "privreg/simulation/staged/kernels.py"
LAWS = ("tests/laws/test_mechanisms.py", "tests/laws/test_reports.py")
STAGES = ("tests/simulation/staged/test_noise.py", "tests/laws/test_reports.py", "tests/laws/test_twins.py")
HOSTILE = ("tests/laws/test_hostile.py",)

MUTANTS = (
    # noise and sensitivity
    Mutant(
        "sensitivity B",
        MECHANISMS,
        "return 2.0 * bound\n",
        "return bound\n",
        (*LAWS, "tests/results/test_statement.py"),
    ),
    Mutant(
        "moments of sensitivity 1",
        MECHANISMS,
        "return math.sqrt(2.0) * bound",
        "return bound",
        (*LAWS, "tests/simulation/staged/test_noise.py"),
    ),
    Mutant(
        "joint without its number",
        MECHANISMS,
        "math.hypot(score_sensitivity(bound), kappa)",
        "score_sensitivity(bound)",
        (*LAWS, "tests/simulation/staged/test_noise.py"),
    ),
    Mutant("bits of one", MECHANISMS, "return math.sqrt(numbers)\n", "return 1.0\n", (*LAWS, *STAGES)),
    Mutant(
        "a fifth less noise",
        MECHANISMS,
        "codes.GAUSSIAN, 2.0 / self.budget.mu",
        "codes.GAUSSIAN, 1.6 / self.budget.mu",
        LAWS,
    ),
    Mutant(
        "Laplace by the l2 distance",
        MECHANISMS,
        "2.0 * math.sqrt(size) / self.epsilon",
        "2.0 / self.epsilon",
        LAWS,
    ),
    Mutant(
        "response told too often",
        MECHANISMS,
        "1.0 / math.tanh(0.5 * self.epsilon)",
        "1.0 / math.tanh(0.6 * self.epsilon)",
        LAWS,
    ),
    Mutant(
        "PrivUnit cap too likely",
        MECHANISMS,
        "accept = 1.0 / (1.0 + math.exp(-epsilon)",
        "accept = 1.0 / (1.0 + math.exp(-1.2 * epsilon)",
        LAWS,
    ),
    Mutant(
        "radius of half",
        MECHANISMS,
        "return 0.5 * sensitivity if self.name",
        "return 0.4 * sensitivity if self.name",
        LAWS,
    ),
    Mutant(
        "curator's noise halved",
        MECHANISMS,
        "return 2.0 * bound / self.budget.mu if",
        "return bound / self.budget.mu if",
        ("tests/simulation/test_sgd.py", "tests/results/test_statement.py", "tests/audit/test_verification.py"),
    ),
    # bounds
    Mutant(
        "score not shortened",
        KERNELS,
        "norm = abs(factor) * math.sqrt(norm2)",
        "norm = 0.0 * abs(factor) * math.sqrt(norm2)",
        ("tests/laws/test_reports.py", "tests/laws/test_scores.py", "tests/laws/test_twins.py"),
    ),
    Mutant(
        "custom scores unclipped",
        KERNELS,
        "own = 1.0 if own > 1.0 else own\n        return -1.0 if own < -1.0 else own",
        "return own",
        ("tests/laws/test_scores.py", "tests/laws/test_twins.py", "tests/laws/test_reports.py"),
    ),
    Mutant(
        "long moments",
        KERNELS,
        "factor = 0.0 if silent else 1.0 / norm2",
        "factor = 0.0 if silent else 1.1 / norm2",
        STAGES,
    ),
    Mutant(
        "noise that does not know personal budgets",
        KERNELS,
        "    randomise(answer, size, radius / math.sqrt(w), channel, noise[i - first])\n        for q in range(size):\n"
        "            total[q] += w * answer[q]\n\n\n@njit",
        "    randomise(answer, size, radius, channel, noise[i - first])\n        for q in range(size):\n"
        "            total[q] += w * answer[q]\n\n\n@njit",
        ("tests/simulation/staged/test_noise.py",),
    ),
    Mutant(
        "score sensitivity off by its centre",
        KERNELS,
        "report[j] += sd * noise[j]\n    elif",
        "report[j] += 0.8 * sd * noise[j]\n    elif",
        (*LAWS, *STAGES),
    ),
    Mutant(
        "bound before weight",
        KERNELS,
        "factor = _bounded(score * omega, norm2, plan.reach)",
        "factor = _bounded(score, norm2, plan.reach) * omega",
        ("tests/laws/test_reports.py",),
    ),
    Mutant(
        "curvature not shortened",
        KERNELS,
        "    factor = _bounded_curvature(factor, norm2, plan.curvature_bound)\n",
        "",
        ("tests/laws/test_scores.py", "tests/audit/test_neighbours.py", "tests/simulation/test_sgd.py"),
    ),
    Mutant(
        "personal budgets of a label",
        KERNELS,
        "randomise(answer, total, radius / math.sqrt(w), plan.channel, noise)",
        "randomise(answer, total, radius, plan.channel, noise)",
        ("tests/laws/test_reports.py",),
    ),
    Mutant(
        "a role by what a record holds",
        KERNELS,
        "is_curvature_turn(position, share):",
        "is_curvature_turn(position + int(y[i] > 0.0), share):",
        ("tests/simulation/test_sgd.py",),
    ),
    # noise is drawn once, secret, and forgotten
    Mutant(
        "a key for all stages",
        "privreg/simulation/staged/pipeline.py",
        'derived_key(key, f"{k} {stages[k].kind}")',
        'derived_key(key, "stage")',
        ("tests/simulation/staged/test_pipeline.py",),
    ),
    Mutant(
        "no ratchet",
        "privreg/device/sampler.py",
        "return following, buffer",
        "return key, buffer",
        ("tests/device/test_sampler.py", "tests/laws/test_noise_keys.py"),
    ),
    Mutant(
        "noise not used up",
        "privreg/device/sampler.py",
        "        self._used += rows\n\n    def draw",
        "        self._used += rows - 1\n\n    def draw",
        ("tests/device/test_sampler.py", "tests/laws/test_noise_keys.py"),
    ),
    Mutant(
        "forks draw the same",
        "privreg/device/sampler.py",
        "if os.getpid() != process:",
        "if False:",
        ("tests/device/test_sampler.py", "tests/laws/test_noise_keys.py"),
    ),
    Mutant(
        "a saved stream keeps its key",
        "privreg/simulation/stream.py",
        "self._run.renew(fresh_key())  # before writing: were",
        "pass  # before writing: were",
        ("tests/simulation/test_stream.py", "tests/laws/test_noise_keys.py"),
    ),
    Mutant(
        "an interrupted update goes on",
        "privreg/simulation/stream.py",
        "self._broken = True  # an interrupt",
        "self._broken = False  # an interrupt",
        ("tests/simulation/test_stream.py", "tests/simulation/test_checkpoint.py"),
    ),
    # what a row may do
    Mutant(
        "no clamping",
        "privreg/data/columns.py",
        "else np.clip(values, low, high)",
        "else values",
        ("tests/formula/test_design.py", "tests/laws/test_leaks.py", "tests/simulation/staged/test_levels.py"),
    ),
    Mutant(
        "an infinite cell",
        "privreg/data/columns.py",
        "return np.where(np.isinf(values), np.nan, values) if np.isinf(values).any() else values",
        "return values",
        HOSTILE,
    ),
    Mutant(
        "an unknown level",
        "privreg/data/columns.py",
        "return np.maximum(out, GAP) if lowest < GAP else out",
        "return out",
        HOSTILE,
    ),
    Mutant(
        "a term that fails for all",
        "privreg/formula/encoding.py",
        "            if m > 1:\n",
        "            if False:\n",
        HOSTILE,
    ),
    Mutant(
        "a term that is not finite",
        "privreg/formula/encoding.py",
        "usable: Flags | None = None if problem is None else np.asarray(fine.all(axis=1))",
        "usable: Flags | None = None",
        HOSTILE,
    ),
    Mutant(
        "numbers as a reader types them",
        "privreg/data/columns.py",
        "    if isinstance(cell, str):\n        text",
        "    if False:\n        text",
        HOSTILE,
    ),
    Mutant(
        "bad bytes are an error",
        "privreg/data/sources/csv.py",
        '"errors": "replace", ',
        "",
        HOSTILE,
    ),
    Mutant("a long line is read", "privreg/data/sources/csv.py", "if not here.all():", "if False:", HOSTILE),
    Mutant(
        "a curator drops records",
        "privreg/central/descent.py",
        "        x[silent] = 0.0  # adds",
        "        x, y = x[~silent], y[~silent]  # adds",
        HOSTILE,
    ),
    Mutant(
        "parts that are no number",
        "privreg/formula/parse.py",
        "        _refuse_infinite(tree, code)\n",
        "",
        HOSTILE,
    ),
    Mutant(
        "rows looked at together",
        "privreg/formula/design.py",
        "    if not alone:\n",
        "    if alone is None:\n",
        ("tests/formula/test_checks.py", "tests/formula/test_formula.py"),
    ),
    # people and accounts
    Mutant(
        "one row too many",
        "privreg/data/participants.py",
        "out[order] = rank >= self.most",
        "out[order] = rank > self.most",
        ("tests/data/test_people.py", "tests/simulation/test_participants.py"),
    ),
    Mutant(
        "a row without an id counts",
        "privreg/data/participants.py",
        "        out[hashes == _NOBODY] = True\n",
        "",
        ("tests/data/test_people.py", "tests/laws/test_hostile.py"),
    ),
    Mutant(
        "budgets above the ceiling",
        "privreg/data/participants.py",
        "if (budgets > self.mu_max).any():",
        "if False:",
        ("tests/data/test_people.py", "tests/messages/test_data.py"),
    ),
    Mutant(
        "releases don't add up",
        "privreg/privacy/budget.py",
        "return math.sqrt(math.fsum(m * m for m in mus))",
        "return max(mus, default=0.0)",
        ("tests/privacy/test_ledger.py", "tests/privacy/test_budget.py"),
    ),
    Mutant(
        "nothing is entered",
        "privreg/privacy/ledger.py",
        "                self._spent[account.key].append((mu, account._replace(owner=None)))\n",
        "                pass\n",
        ("tests/privacy/test_ledger.py",),
    ),
    Mutant(
        "a limit that doesn't hold",
        "privreg/privacy/ledger.py",
        "        if total <= limit * (1 + 1e-12):",
        "        if total <= 2 * limit:",
        ("tests/privacy/test_ledger.py",),
    ),
    # inference
    Mutant(
        "a block off by one",
        "privreg/inference/blocks.py",
        "sums=blocks.sums[1::2]",
        "sums=blocks.sums[::2]",
        ("tests/inference/test_blocks.py",),
    ),
    Mutant(
        "a part loses its last row",
        "privreg/simulation/partitions.py",
        "first=a, rows=b - a)",
        "first=a, rows=b - a - 1)",
        ("tests/simulation/test_partitions.py",),
    ),
    Mutant(
        "one tail",
        "privreg/inference/pivots.py",
        "return np.asarray(2 * stdtr(self.df, -np.abs(t)))",
        "return np.asarray(stdtr(self.df, -np.abs(t)))",
        ("tests/inference/test_methods.py", "tests/experiments/test_reference.py"),
    ),
)


def control(mutants: Sequence[Mutant]) -> Mutant:
    """A change of nothing, which must pass: were a test to fail in a copy anyway, it would kill whatever is tried."""
    tests = tuple(sorted({path for mutant in mutants for path in mutant.tests}))
    return Mutant("nothing changed", MECHANISMS, "return 2.0 * bound\n", "return 2.0 * bound\n", tests)


def survives(mutant: Mutant, places: Queue[Path]) -> bool:
    """Whether the tests of a mutant pass with it, in a copy of the tree at a place that others use in turn.

    What is compiled is kept by place and text, so that only changed loops are compiled again.
    """
    tree = places.get()
    try:
        return _survives(mutant, tree)
    finally:
        shutil.rmtree(tree)
        places.put(tree)


def _survives(mutant: Mutant, tree: Path) -> bool:
    tree.mkdir()
    for part in ("privreg", "tests", "benchmarks", "data", "pyproject.toml", "README.md"):
        source = ROOT / part
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, tree / part)
    path = tree / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: its text stands {text.count(mutant.old)} times in {mutant.file}, not once")
    path.write_text(text.replace(mutant.old, mutant.new))
    env = {**os.environ, "XDG_CACHE_HOME": str(tree.parent / "cache")}
    env.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not statistical"]
    done = subprocess.run([*command, *mutant.tests], cwd=tree, env=env, check=False, capture_output=True, text=True)
    if done.returncode not in {0, 1}:
        raise SystemExit(f"{mutant.name}: its tests could not be run\n{done.stdout[-2000:]}")
    return done.returncode == 0


def main(arguments: list[str] | None = None) -> int:
    """Try them; the number of survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--jobs", type=int, default=2)
    a = parser.parse_args(arguments)
    chosen = [m for m in MUTANTS if not a.names or m.name in a.names]
    same = control(chosen)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(a.jobs) as pool:
        places: Queue[Path] = Queue()
        for k in range(a.jobs):
            places.put(Path(folder) / str(k))
        jobs = {m.name: pool.submit(survives, m, places) for m in (*chosen, same)}
        untouched = jobs.pop(same.name)
        alive = []
        for name, job in jobs.items():
            survived = job.result()
            print(f"{'SURVIVED' if survived else 'killed'}: {name}", flush=True)
            alive += [name] if survived else []
        if not untouched.result():
            raise SystemExit(
                "the tests fail in a copy in which nothing is changed: what they killed counts for nothing"
            )
    print(f"{len(chosen) - len(alive)} of {len(chosen)} killed")
    return len(alive)


if __name__ == "__main__":
    sys.exit(main())
