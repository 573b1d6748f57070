"""The site of the documentation; `make docs` builds it with Sphinx."""

import pathlib
import sys

from pygments.lexers import python as python_lexers
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

project = "transformer_zoo"
html_title = project

extensions = [
  "myst_nb",
  "sphinx.ext.autodoc",
  "sphinx.ext.napoleon",
]

# The pages are read without Sphinx too, so they are plain Markdown, and links
# to headings are those that a viewer of Markdown makes.
myst_enable_extensions = []
myst_heading_anchors = 4

# A tutorial trains models for minutes: its own test runs it, and the site is
# built without. `make docs EXECUTE=cache` runs each tutorial that has changed
# and shows what its cells print and draw.
nb_execution_mode = "off"
nb_execution_timeout = -1
# What it writes lies in a temporary folder.
nb_execution_in_temp = True

default_role = "literal"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
autodoc_member_order = "bysource"
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80

html_theme = "sphinx_book_theme"
html_theme_options = {
  "show_navbar_depth": 1,
  "use_download_button": False,
  # The search of the sidebar is enough.
  "navbar_persistent": [],
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_use_index = False
html_domain_indices = False
html_show_copyright = False


class PagesOfStudies(SphinxTransform):
  """Links to the README of a study lead to its page, docs/studies/NAME/README.

  docs/studies is a symbolic link to gin_configs/studies.
  """

  default_priority = 5

  def apply(self) -> None:
    """Renames the targets of the references of one page."""
    folder = ROOT / "gin_configs" / "studies"
    for node in self.document.findall(addnodes.pending_xref):
      target = pathlib.Path(node["reftarget"])
      if node.get("refdomain") == "doc" and folder in target.parents:
        name = target.relative_to(folder).as_posix()
        node["reftarget"] = f"studies/{name}"


def setup(app) -> None:
  """Registers what the pages need beyond Sphinx's extensions."""
  # Gin files are written in a part of Python's syntax.
  app.add_lexer("gin", python_lexers.PythonLexer)
  app.add_transform(PagesOfStudies)
