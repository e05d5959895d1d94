"""The JavaScript device, for tests that ask for `js`."""

from tests.service.node import js

__all__ = ["js"]
