"""The device is made of the kit's device and messages and of privreg's protocol, all under one name.

In a source distribution they are in place.
"""

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PARTS = (
    "packages/field/privreg_field/device",
    "privreg/protocol",
    "packages/field/privreg_field/wire",
)
IMPORTED = re.compile(r"^( *from )(?:privreg|privreg_field)(?=\.| import)", flags=re.MULTILINE)


def _repository(root: str) -> Path | None:
    """The repository in which this package stands, if it does."""
    there = Path(root).parents[1]
    return there if (there / "privreg" / "base" / "version.py").is_file() else None


class Parts(BuildHookInterface):
    """Put the parts in place."""

    made: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Copy them, with imports of each other by their new name, and add them to what is built."""
        there = _repository(self.root)
        if there is None:
            return
        self.made = tempfile.mkdtemp()
        for part in (there / one for one in PARTS):
            copy = Path(self.made) / part.name
            if part.is_dir():
                shutil.copytree(part, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(part, copy)
            for file in [copy, *copy.rglob("*.py")]:
                if file.suffix == ".py":
                    file.write_text(IMPORTED.sub(r"\1privreg_device", file.read_text("utf-8")), "utf-8")
        build_data["force_include"][self.made] = "privreg_device"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies."""
        if self.made is not None:
            shutil.rmtree(self.made)


class Version(MetadataHookInterface):
    """The version is that of privreg."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read it from the repository, or from what was written of the source distribution."""
        there = _repository(self.root)
        file = Path(self.root) / "PKG-INFO" if there is None else there / "privreg" / "base" / "version.py"
        found = re.search(r'^(?:Version: |__version__ = ")([^"\s]+)', file.read_text("utf-8"), flags=re.MULTILINE)
        if found is None:
            raise ValueError(f"{file} names no version")
        metadata["version"] = found[1]
