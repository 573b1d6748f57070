"""Every command of README, docs and gin files is one that `zoo` takes."""

import importlib
from importlib import util
import pathlib
import re
import shlex

import gin
import pytest

from transformer_zoo import config
from transformer_zoo.cli import main as cli
from transformer_zoo.config import reading

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GIN_FILES = sorted((ROOT / "gin_configs").rglob("*.gin"))
RUN_FILES = [path for path in GIN_FILES if path.parent.name == "runs"]


def commands(page: pathlib.Path) -> list[list[str]]:
  """The commands of a page as lists of words, without what launches them."""
  text = page.read_text(encoding="utf-8")
  if page.suffix == ".gin":
    text = re.sub("^# ?", "", text, flags=re.M)
  text = text.replace("\\\n", " ")
  found = re.findall(r"^ *(?:\S.* -- )?(zoo [^`|]*?)(?: *[|#].*)?$", text, re.M)
  return [
    shlex.split(line) for line in found if "..." not in line and "[" not in line
  ]


@pytest.mark.parametrize(
  "page", [*PAGES, *GIN_FILES], ids=lambda page: str(page.relative_to(ROOT))
)
def test_commands_are_taken(page):
  for words in commands(page):
    given = [word for word in words[1:] if not word.startswith("--gin.")]
    arguments, more = cli.build_parser().parse_known_args(given)
    assert not more or hasattr(arguments, "takes_more"), words
    for name in getattr(arguments, "gin_file", None) or []:
      if not name.startswith("my_"):
        assert reading.find(name, []), words


@pytest.mark.parametrize(
  "page",
  [*[page for page in PAGES if page.parent.name != "log"], *RUN_FILES],
  ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_training_run_reads_every_binding_of_its_command(page):
  for words in commands(page):
    overrides = [word[6:] for word in words if word.startswith("--gin.")]
    given = [word for word in words[1:] if not word.startswith("--gin.")]
    arguments, _ = cli.build_parser(given).parse_known_args(given)
    files = getattr(arguments, "gin_file", None) or ["my_run.gin"]
    if words[1] == "train" and "my_run.gin" not in files:
      if "MODEL" not in config.macros(files, overrides):  # The checkpoint's.
        model = "bert" if "runs/bert_finetune.gin" in files else "t5_1_1"
        of_checkpoint = [
          f"architectures/{model}.gin",
          f"sizes/{model}_small.gin",
        ]
        files = [*of_checkpoint, *files]
      try:
        config.load(files, overrides)
      finally:
        gin.clear_config()


@pytest.mark.parametrize(
  "page", PAGES, ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_somewhere(page):
  for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
    if not link.startswith("http"):
      assert (page.parent / link).exists(), link


def test_the_readme_shows_the_task_of_the_guide():
  readme, guide = (
    re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S)
    for path in (ROOT / "README.md", ROOT / "docs/guides/your_own_task.md")
  )
  assert guide[0] in readme


def test_the_map_names_files_that_exist():
  text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
  numbered = re.findall(r"^\| (\d+) \| ([^|]*)", text, re.M)
  assert {int(number) for number, _ in numbered} == set(range(1, 21))
  files = [
    name
    for _, cell in numbered
    for name in re.findall(r"`(\S+/\S+\.py)`", cell)
  ]
  assert len(files) >= len(numbered)
  for file in files:
    place = ROOT if file.startswith("tasks/") else ROOT / "transformer_zoo"
    assert (place / file).is_file(), file


def test_every_page_is_in_the_contents_of_the_site():
  """`make docs` refuses a page that no table of contents names."""
  docs, named = ROOT / "docs", set()
  for index in (docs / "index.md", docs / "results" / "index.md"):
    text = index.read_text(encoding="utf-8")
    blocks = re.findall(r"```{toctree}\n(.*?)```", text, re.S)
    for entry in re.findall(r"^[\w/*]+$", "\n".join(blocks), re.M):
      named.update(index.parent.glob(f"{entry}.md"))
  assert {*docs.rglob("*.md")} - named == {docs / "index.md"}


@pytest.mark.parametrize(
  "page",
  sorted((ROOT / "docs/guides").glob("*.md")),
  ids=lambda page: page.stem,
)
def test_a_guide_is_read_in_five_minutes(page):
  """At 230 words a minute; what is longer belongs to the reference."""
  assert len(page.read_text(encoding="utf-8").split()) <= 1150


def test_the_reference_has_every_public_name():
  page = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
  named = re.findall(r":: transformer_zoo\.(\w+)$", page, re.M)
  api = importlib.import_module("transformer_zoo")._API
  assert {*named} == {
    name
    for name, module in api.items()
    if util.find_spec(f"transformer_zoo.api.{module}")
  }
