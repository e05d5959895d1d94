"""A picture of the package, drawn from its code: ``python -m docs.rooms [--root FOLDER] [--out FILE.png]``.

A room is a folder of `privreg/`, or a file of its root. It stands on the floor that the import contract of
`pyproject.toml` gives it; a line leads from a room to each room that it imports. Without --out the numbers alone.
"""

from __future__ import annotations

import argparse
import ast
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOMS = "privreg"


def _room(module: str) -> str:
    """The room of a module's dotted name; "" for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == ROOMS else ""


def read(root: Path = ROOT) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """Lines of each room, and how many files of a room import another."""
    lines, arrows = defaultdict[str, int](int), defaultdict[tuple[str, str], int](int)
    for file in sorted((root / ROOMS).rglob("*.py")):
        named = list(file.relative_to(root).with_suffix("").parts)
        own, text = _room(".".join(named)), file.read_text("utf-8")
        tree = ast.parse(text)
        if own in {"", "__init__", "__main__"} or all(isinstance(node, ast.Expr | ast.Raise) for node in tree.body):
            continue  # a name that only says where something has gone is no room
        lines[own] += text.count("\n")
        found = set[str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {_room(alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = ".".join(named[: len(named) - node.level]) + "." if node.level else ""
                module = f"{base}{node.module or ''}".strip(".")
                found |= {_room(module)} if _room(module) else {_room(f"{module}.{a.name}") for a in node.names}
        for other in found - {"", own}:
            arrows[own, other] += 1
    return dict(lines), {k: v for k, v in arrows.items() if k[1] in lines}


def floors(root: Path = ROOT) -> list[list[str]]:
    """Rooms by floor, the highest first: as the import contract lists them."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers: list[str] = next(c["layers"] for c in contracts if c["type"] == "layers")
    out, had = [], set[str]()
    for layer in layers:
        here = [room for one in layer.split("|") if (room := _room(one.strip())) not in had | {"", "__main__"}]
        had.update(here)
        out += [list(dict.fromkeys(here))] if here else []
    return out


def draw(root: Path = ROOT) -> Any:
    """The figure: rooms with their lines; darker lines the more files import; what all stand on has none."""
    import matplotlib.pyplot as plt

    lines, arrows = read(root)
    stacked = [[r for r in floor if r in lines] for floor in floors(root)]
    stacked = [floor for floor in stacked if floor]
    figure, ax = plt.subplots(figsize=(10.0, 0.42 * len(stacked) + 0.6))
    places: dict[str, tuple[float, float]] = {}
    for k, floor in enumerate(stacked):
        for j, room in enumerate(floor):
            shift = 0.0 if len(floor) > 1 else 0.9 * ((k % 3) - 1)
            places[room] = (2.6 * (j - 0.5 * (len(floor) - 1)) + shift, -float(k))
    for (a, b), files in arrows.items():
        if a in places and b in places and b not in stacked[-1]:
            strength = min(0.08 + 0.05 * files, 0.6)
            bend = {"arrowstyle": "-", "connectionstyle": "arc3,rad=0.15", "alpha": strength, "color": "#1f4e79"}
            ax.annotate("", places[b], places[a], arrowprops=bend)
    for room, (x, y) in places.items():
        box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "#1f4e79"}
        ax.text(x, y, f"{room}  {lines[room]:,}", ha="center", va="center", fontsize=8, bbox=box)
    ax.set_xlim(-5.2, 5.2)
    ax.set_ylim(0.6 - len(stacked), 0.6)
    ax.axis("off")
    figure.tight_layout()
    return figure


def main(arguments: list[str] | None = None) -> None:
    """Print how many rooms, floors and arrows there are, and draw them."""
    parser = argparse.ArgumentParser(prog="python -m docs.rooms", description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout")
    parser.add_argument("--out", type=Path, help="file of the picture")
    a = parser.parse_args(arguments)
    lines, arrows = read(a.root)
    both = sum((b, a) in arrows for a, b in arrows) // 2
    counted = f"{len(lines)} rooms on {len(floors(a.root))} floors, {sum(lines.values()):,} lines, {len(arrows)} arrows"
    print(f"{counted}, {both} pairs of rooms that import each other")
    if a.out:
        draw(a.root).savefig(a.out, dpi=110)


if __name__ == "__main__":
    main()
