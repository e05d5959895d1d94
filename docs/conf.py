"""Settings of the documentation, read by Sphinx."""

import os
import sys
from pathlib import Path

import privreg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


project = "privreg"
author = "the privreg developers"
release = version = privreg.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
]
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "privreg"
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
}
html_sidebars = {"index": [], "coming_from": [], "coming_from_others": []}
html_static_path = ["static"]
html_css_files = ["privreg.css"]
html_show_sourcelink = True

myst_enable_extensions = ["colon_fence", "deflist"]  # no formulas of TeX: their script is another host's
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_excludepatterns = [name for name in os.environ.get("PRIVREG_DOCS_SKIP", "").split(",") if name]
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_code_prompt_show, nb_code_prompt_hide = "Show {type}", "Hide {type}"
nb_ipywidgets_js = {}  # progress bars are widgets: not shown, as their scripts are two other hosts'

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = True
numpydoc_class_members_toctree = False
numpydoc_show_inherited_class_members = False
numpydoc_xref_param_type = False


def add_pictures(app, what, name, obj, options, lines):
    """Below the text of a plotting function or of a class that plots, the pictures of the page of plots."""
    for file in sorted((Path(app.srcdir) / "pictures").glob("*.png")):
        own, _, method = file.stem.rpartition(".")
        if name.endswith(f".{own if what == 'class' and own else file.stem}"):
            title = [f"``{method}`` draws", ""] if own else []
            lines += ["", *title, f".. image:: /pictures/{file.name}", f"   :alt: {file.stem}", "   :width: 520px", ""]


def setup(app):
    """Pictures come after numpydoc's own work on a text."""
    app.connect("autodoc-process-docstring", add_pictures, priority=900)
