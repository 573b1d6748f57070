"""The page of a study as a browser shows it, on a desk and on a phone.

Skipped where there is no Chromium: `apt-get install chromium` (or
`chromium-headless-shell`), or `playwright install chromium`.
"""

import pytest

from transformer_zoo.studies.execution import results
from transformer_zoo.studies.report import index
from transformer_zoo.studies.report import report
from transformer_zoo.studies.statistics import analysis

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.slow

_PHONE = {"width": 390, "height": 844}
_CONTRAST = """
() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map((c) => {
      const part = c / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const kinds = [".lead", ".note", "td", "a", "summary", ".chart text"];
  const shown = kinds.map((kind) => document.querySelector(kind));
  return shown.filter(Boolean).map((element) => {
    const style = getComputedStyle(element);
    const ink = light(element.closest("svg") ? style.fill : style.color);
    const [high, low] = ink > paper ? [ink, paper] : [paper, ink];
    return (high + 0.05) / (low + 0.05);
  });
}
"""


@pytest.fixture(scope="module")
def folder(finished):
  """The folder of a made-up study, with its page and an index above it."""
  folder = finished()
  found = analysis.analyse(results.read(folder))
  index.write(folder.parent, [found])
  report.write(found)
  return folder


@pytest.fixture
def show(browser, folder):
  """Opens the page of the study; fails where it says or asks anything."""
  contexts, heard = [], []

  def hear_request(request):
    if not request.is_navigation_request():
      heard.append(request.url)

  def open_page(name="report.html", **options):
    context = browser.new_context(offline=True, **options)
    contexts.append(context)
    page = context.new_page()
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", hear_request)
    page.goto((folder / name).resolve().as_uri())
    return page

  yield open_page
  assert heard == []
  for context in contexts:
    context.close()


def _rows(page):
  labels = page.locator("#scores tbody th").all_inner_texts()
  return [label.removeprefix("★\u00a0") for label in labels]


def test_columns_sort_from_the_keyboard(show):
  page = show()
  as_written = ["the baseline", "no_pretraining", "half_as_long"]
  assert _rows(page) == as_written
  for _ in range(60):
    page.keyboard.press("Tab")
    if page.evaluate("document.activeElement.innerText") == "Sentiment":
      break
  head = page.locator("#scores th", has_text="Sentiment")
  assert head.get_attribute("aria-sort") == "none"
  page.keyboard.press("Enter")
  assert head.get_attribute("aria-sort") == "descending"
  falling = _rows(page)
  assert falling[-1] == "no_pretraining"  # 50 points against 80.
  page.keyboard.press("Space")
  assert head.get_attribute("aria-sort") == "ascending"
  assert _rows(page) == falling[::-1]
  page.locator("#scores th button", has_text="row").click()
  assert head.get_attribute("aria-sort") == "none"
  page.keyboard.press("Enter")
  page.keyboard.press("Enter")
  assert _rows(page) == as_written


def test_rows_without_a_score_stay_last(show):
  page = show()
  page.evaluate(
    "document.querySelector('#scores tbody tr:nth-child(1) td').dataset.order"
    " = ''"
  )
  button = page.locator("#scores th button", has_text="Sentiment")
  for _ in range(2):
    button.click()
    assert _rows(page)[-1] == "the baseline"


def test_a_number_unfolds_where_it_comes_from(show):
  page = show()
  target = page.locator("#source-no_pretraining-similarity")
  assert not target.is_visible()
  row = page.locator("#scores tbody tr", has_text="no_pretraining")
  row.locator("td").nth(1).locator("a:visible").click()
  sync_api.expect(target).to_be_visible()
  sync_api.expect(target).to_be_in_viewport()
  links = page.locator("#source-no_pretraining-similarity + .scroll a")
  targets = [link.get_attribute("href") for link in links.all()]
  assert any(one.endswith("similarity.jsonl") for one in targets)


def test_scores_and_differences_by_choice(show):
  page = show()
  cell = page.locator("#scores tbody tr").nth(1).locator("td").first
  assert "±" in cell.inner_text()
  page.get_by_label("differences from the baseline").check()
  assert cell.inner_text().startswith("−3")  # About 50 less 82.
  steps, tokens = (
    page.locator("#learning-curves svg:visible text", has_text=name)
    for name in ("steps", "tokens")
  )
  assert steps.count() and not tokens.count()
  page.get_by_label("against tokens").first.check()
  assert tokens.count()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_reads_well_on_a_phone(show, scheme):
  page = show(viewport=_PHONE, color_scheme=scheme, has_touch=True)
  page.evaluate("document.querySelectorAll('details').forEach(d => d.open = 1)")
  width = page.evaluate("document.documentElement.scrollWidth")
  assert width == _PHONE["width"]  # Tables scroll by themselves.
  assert min(page.evaluate(_CONTRAST)) >= 4.5  # WCAG 2, level AA.
  table = page.locator("#scores-of-each-task .scroll")
  label = table.locator("tbody th").first
  before = label.bounding_box()["x"]
  assert table.evaluate("t => (t.scrollLeft = 100, t.scrollLeft)") > 0
  assert label.bounding_box()["x"] == before


def test_no_column_of_the_budgets_is_cut(show):
  page = show(viewport={"width": 1200, "height": 800})
  table = page.locator("#budgets .scroll")
  assert table.evaluate("t => t.scrollWidth - t.clientWidth") == 0


def test_every_section_of_the_contents_can_be_touched_on_a_phone(show):
  page = show(viewport=_PHONE, has_touch=True)
  links = page.locator("nav a").all()
  assert len(links) == page.locator("section").count()
  for link in links:
    box = link.bounding_box()
    assert 0 <= box["x"] and box["x"] + box["width"] <= _PHONE["width"]
    assert box["height"] >= 24  # WCAG 2.2, level AA.


@pytest.mark.parametrize("viewport", [_PHONE, {"width": 1100, "height": 800}])
def test_the_index_leads_to_a_study_and_back(show, viewport):
  page = show("../index.html", viewport=viewport)
  width = page.evaluate("document.documentElement.scrollWidth")
  assert width == viewport["width"]
  assert min(page.evaluate(_CONTRAST)) >= 4.5
  page.locator("thead button", has_text="state").click()
  assert page.locator("th[aria-sort=descending]").count() == 1
  link = page.locator("tbody th a")
  assert link.inner_text() == "tiny, two (version 1)"
  link.click()
  sync_api.expect(page).to_have_title("tiny")
  page.get_by_text("All studies").click()
  sync_api.expect(page).to_have_title("Results")
