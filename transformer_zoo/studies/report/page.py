"""HTML pages of reports, rendered from the Jinja templates in `templates/`.

A page is one file that needs no network: style, script and charts stand in it.
Templates escape every text; charts alone are markup.
"""

import os
import pathlib
import sys

import jinja2

_TEMPLATES = pathlib.Path(__file__).parent / "templates"


def anchor(*words: str) -> str:
  """Returns words as the name of a place in a page."""
  return "-".join(words).replace(" ", "-")


def render(template: str, **values: object) -> str:
  """Renders a template.

  Args:
    template: The name of a file in `templates/`.
    **values: The values that the template uses.

  Returns:
    The page as HTML.
  """
  return _ENVIRONMENT.get_template(template).render(values)


def how_to_open(path: pathlib.Path) -> str:
  """Returns a sentence on how to open a page, for the terminal."""
  text = f"Open {path} in a browser."
  has_display = "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
  if sys.platform == "linux" and not has_display:
    text += (
      f"\nFrom another machine: python -m http.server --directory {path.parent}"
      f", then http://THIS_MACHINE:8000/{path.name}"
    )
  return text


_ENVIRONMENT = jinja2.Environment(
  loader=jinja2.FileSystemLoader(_TEMPLATES),
  autoescape=True,
  undefined=jinja2.StrictUndefined,
  trim_blocks=True,
  lstrip_blocks=True,
)
_ENVIRONMENT.filters["anchor"] = anchor
