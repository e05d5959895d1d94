"""Views in files, by the ending of the name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from privreg.errors import OptionError, choose
from privreg.files import archive
from privreg.tables import View, as_page
from privreg.tables.docx import as_docx

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["rendered", "save_view"]


def rendered(view: View, ending: str, title: str) -> bytes:
    """Contents of a file of a view.

    Parameters
    ----------
    view : View
    ending : str
        .txt, .md, .html (a whole page), .tex (to be included) or .docx.
    title : str
        Of the page.

    Raises
    ------
    OptionError
        If the ending is another.
    MissingExtraError
        If it is .docx, and python-docx is not installed.
    """
    forms: dict[str, Callable[[], str | bytes]] = {
        ".txt": lambda: view.as_text() + "\n",
        ".md": view.as_markdown,
        ".html": lambda: as_page(title, view.as_html()) + "\n",
        ".tex": view.as_latex,
        ".docx": lambda: as_docx(view._layout()),
    }
    made = forms[choose("the ending of the file", ending, forms)]()
    return made if isinstance(made, bytes) else made.encode()


def save_view(view: View, path: str | Path, title: str) -> None:
    """Write a view to a file, atomically; see :func:`rendered`.

    Raises
    ------
    OptionError, MissingExtraError
        As there, or if `path` is no name of a file.
    SavedFileError
        If the file can't be written.
    """
    if not isinstance(path, str | Path) or not str(path):
        raise OptionError('save() takes the name of a file, such as save("table.docx").')
    archive.write_bytes(path, rendered(view, Path(path).suffix.lower(), title))
