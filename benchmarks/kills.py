"""Whether a fit that is killed (SIGKILL) at random moments ends in the bits of one that never was.

``python -m benchmarks.kills [--kills K] [--rows N]``

A process fits people from a CSV file with a checkpoint every tenth of the rows, and is killed at a moment drawn
uniformly over the time an undisturbed fit takes beyond its start. Each kill is followed by one resumption that runs to
the end, with the seed of the undisturbed fit, so that bits can be compared. Stored are the rows that the checkpoint
held, those that had been read when the process was killed at the latest, and whether the end was the same.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.store import save_table
from privreg.base import archive

SEED = 7
FIT = """
import os, sys
from pathlib import Path
import privreg as pr
from privreg.simulation.streaming.stream import Stream
path, kept, said, every = sys.argv[1:]
take = Stream._take
def noted(self, rows, read):
    take(self, rows, read)
    Path(said + "~").write_text(str(self.rows_read))
    os.replace(said + "~", said)
Stream._take = noted
res = pr.PrivateOnlineRegression.from_formula(
    "y ~ a + b", path, mu=1, bounds={"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}
).fit(checkpoint=kept, checkpoint_rows=int(every), seed=7, progress=False)
print((res.params.to_numpy().tobytes() + res.cov_params().to_numpy().tobytes()).hex())
"""


def people(rows: int, path: Path) -> None:
    """Write simulated people to a CSV file."""
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, rows), "b": rng.uniform(-1, 1, rows)})
    data["y"] = 0.5 + data["a"] - data["b"] + rng.normal(0, 0.5, rows)
    data.round(4).to_csv(path, index=False)


def run(kills: int, rows: int) -> pd.DataFrame:
    """Kill and resume; a row a kill."""
    rng, out = np.random.default_rng(2), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        path, kept, said = (Path(folder) / name for name in ("people.csv", "run.privreg", "said"))
        people(rows, path)
        every = rows // 10
        given = [sys.executable, "-c", FIT, str(path), str(kept), str(said), str(every)]
        begin = time.monotonic()
        process = subprocess.Popen(given, stdout=subprocess.PIPE, text=True)
        while not said.exists():
            time.sleep(0.002)
        first = time.monotonic() - begin
        right = process.communicate()[0].strip()
        whole = time.monotonic() - begin
        while len(out) < kills:
            said.unlink(missing_ok=True)
            process = subprocess.Popen(given, stdout=subprocess.DEVNULL)
            while not said.exists():
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 0.9 * (whole - first)))
            process.kill()
            process.wait()
            if not kept.exists():  # it had ended just before: no kill
                continue
            read = int(archive.read(kept, lambda _: 1000)[0]["read"])
            seen = int(said.read_text())
            end = subprocess.run(given, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
            same = end == right
            row = {
                "kill": len(out) + 1,
                "kept": read,
                "read_when_killed": seen,
                "read_again": seen - read,
            }
            out.append({**row, "interval": every, "same_bits": same, "file_left": kept.exists()})
            print(out[-1], flush=True)
    return pd.DataFrame(out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    a = parser.parse_args(arguments)
    table = run(a.kills, a.rows)
    save_table(table, a.out / "kills.csv", f"python -m benchmarks.kills --kills {a.kills} --rows {a.rows}")
    print(table.to_string(index=False), f"\nprivreg {pr.__version__}")


if __name__ == "__main__":
    main()
