"""How Sphinx builds this documentation: Markdown pages, and a reference made from the docstrings."""

from modelkeep import __version__

project = "ModelKeep"
author = "The ModelKeep authors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = f"ModelKeep {__version__}"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
# The docstrings are Markdown-flavoured: a single backtick is code, not a title reference.
default_role = "code"
nitpicky = False
myst_heading_anchors = 3  # links to a heading by its words, as GitHub has them
