"""What the device is made of: the repository's device and protocol; in a source distribution they are in place."""

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PARTS = ("device", "protocol", "limits.py")


def _repository(root: str) -> Path | None:
    """The package beside which this one stands, if it does."""
    there = Path(root).parents[1] / "privreg"
    return there if (there / "version.py").is_file() else None


class Parts(BuildHookInterface):
    """Put the parts in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them to what is built."""
        there = _repository(self.root)
        if there is not None:
            build_data["force_include"].update({str(there / part): f"privreg_device/{part}" for part in PARTS})


class Version(MetadataHookInterface):
    """The version is that of privreg."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read it from the repository, or from what was written of the source distribution."""
        there = _repository(self.root)
        file = Path(self.root) / "PKG-INFO" if there is None else there / "version.py"
        found = re.search(r'^(?:Version: |__version__ = ")([^"\s]+)', file.read_text("utf-8"), flags=re.MULTILINE)
        if found is None:
            raise ValueError(f"{file} names no version")
        metadata["version"] = found[1]
