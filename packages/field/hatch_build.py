"""The kit has the version of the privreg beside it, and stands on that one; a source distribution says it."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Version(MetadataHookInterface):
    """The version is that of privreg."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read it."""
        there = Path(self.root).parents[1] / "privreg" / "base" / "version.py"
        file = there if there.is_file() else Path(self.root) / "PKG-INFO"
        found = re.search(r'^(?:Version: |__version__ = ")([^"\s]+)', file.read_text("utf-8"), flags=re.MULTILINE)
        if found is None:
            raise ValueError(f"{file} names no version")
        metadata["version"] = found[1]
        metadata["dependencies"] = [f"privreg=={found[1]}"]
