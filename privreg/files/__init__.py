"""Files: saved archives written whole or not at all, seals on those that choose noise, optional packages."""
