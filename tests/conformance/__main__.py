"""`python -m tests.conformance`: write the vectors anew."""

from privreg.base import archive
from tests.conformance.make import FILES, FOLDER, text_of

for name in FILES:
    archive.write_bytes(str(FOLDER / f"{name}.json"), text_of(name).encode())
