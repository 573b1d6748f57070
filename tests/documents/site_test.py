"""The site of the documentation: built, its links followed, read on a phone.

Skipped where Sphinx is not installed: `make docs` installs it. ZOO_SITE names
the folder of a site that has just been built. The tests in a browser need
Chromium as well (`apt-get install chromium`).
"""

from html import parser
import os
import pathlib
import subprocess
import sys
from urllib import parse

import pytest

pytest.importorskip(
  "sphinx_book_theme", reason="Sphinx is not installed: make docs"
)
pytest.importorskip("myst_nb", reason="Sphinx is not installed: make docs")
pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]
_PHONE = {"width": 390, "height": 844}


class _Page(parser.HTMLParser):
  """What a page refers to, and the anchors that it has."""

  def __init__(self, path: pathlib.Path):
    super().__init__()
    self.references, self.anchors = [], {""}
    self.feed(path.read_text(encoding="utf-8"))

  def handle_starttag(self, tag, attrs):
    for name, value in attrs:
      if name in ("href", "src"):
        self.references.append(value)
      elif name == "id":
        self.anchors.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> pathlib.Path:
  """The folder of the site, built as `make docs` does: a warning fails."""
  if built := os.environ.get("ZOO_SITE"):
    return pathlib.Path(built).resolve()
  folder = tmp_path_factory.mktemp("site")
  options = ["--quiet", "--fail-on-warning", "-b", "html"]
  places = ["-d", str(folder / "doctrees"), "docs", str(folder / "html")]
  finished = subprocess.run(
    [sys.executable, "-m", "sphinx", *options, *places],
    cwd=ROOT,
    capture_output=True,
    text=True,
  )
  assert not finished.returncode, finished.stderr
  return folder / "html"


@pytest.fixture(scope="module")
def pages(site) -> dict[pathlib.Path, _Page]:
  """The pages of the site by path."""
  paths = (path for path in sorted(site.rglob("*.html")) if path.is_file())
  return {path: _Page(path) for path in paths if "_static" not in path.parts}


@pytest.fixture
def show(browser):
  """Opens a page; fails where it errs or asks anything of another machine."""
  contexts, heard = [], []

  def hear_request(request):
    if parse.urlsplit(request.url).scheme not in ("file", "data"):
      heard.append(request.url)

  def hear_error(error):
    # A page that is a file may not read others, and so the search shows their
    # titles alone.
    if "Failed to fetch" not in str(error):
      heard.append(str(error))

  def open_page(path, query="", **options):
    context = browser.new_context(offline=True, **options)
    contexts.append(context)
    page = context.new_page()
    page.on("pageerror", hear_error)
    page.on("request", hear_request)
    page.goto(path.resolve().as_uri() + query)
    return page

  yield open_page
  assert heard == []
  for context in contexts:
    context.close()


def test_every_link_of_the_site_leads_somewhere(pages):
  dead = []
  for path, page in pages.items():
    for reference in page.references:
      link = parse.urlsplit(reference)
      if link.scheme or link.netloc:
        continue
      target = (path.parent / parse.unquote(link.path)).resolve()
      target = target if link.path else path
      anchor = parse.unquote(link.fragment)
      if not target.is_file() or (
        target in pages and anchor not in pages[target].anchors
      ):
        dead.append((path.name, reference))
  assert len(pages) > 40 and not dead


def test_no_page_is_wider_than_a_phone(pages, show):
  page = show(next(iter(pages)), viewport=_PHONE, has_touch=True)
  wide = []
  for path in pages:
    page.goto(path.as_uri())
    width = page.evaluate("document.documentElement.scrollWidth")
    if width != _PHONE["width"]:
      wide.append((path.name, width))
  assert not wide


def test_the_search_finds_a_page_without_a_server(site, show):
  page = show(site / "search.html", "?q=adafactor")
  address = "reference/optimizers.html"
  page.locator(f"#search-results a[href*='{address}']").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_its_colors_are_those_that_the_reader_prefers(site, show, scheme):
  page = show(site / "index.html", color_scheme=scheme)
  assert page.locator("html").get_attribute("data-theme") == scheme
