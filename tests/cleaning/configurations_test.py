"""The shipped gin files of cleanings, and what they bind."""

import pathlib

import gin
import pytest

import transformer_zoo
from transformer_zoo import config
from transformer_zoo.errors import UserError

GIN = pathlib.Path(transformer_zoo.__file__).parent.parent / "gin_configs"
GIVEN = ["inputs", "output_dir"]
# What a cleaning needs to be given.
LISTS = {
  "c4_realnewslike": ["clean.host_names='hosts.json'"],
  "c4_webtextlike": ["clean.urls='urls.txt'"],
}


@pytest.fixture(autouse=True)
def forget():
  yield
  gin.clear_config()


def load(name, bindings=()):
  config.load([f"cleaning/{name}.gin"], bindings, root="clean", given=GIVEN)
  return gin.get_bindings("clean")


@pytest.mark.parametrize(
  "name", sorted(path.stem for path in (GIN / "cleaning").glob("*.gin"))
)
def test_shipped_files(name):
  if name in LISTS:
    with pytest.raises(UserError, match="is required"):
      load(name)
  cleaning = load(name, LISTS.get(name, ()))
  assert cleaning["language"].min_probability == 0.99
  assert ("rules" in cleaning) == (name != "c4_unfiltered")


def test_both_published_thresholds():
  paper, jmlr, tfds = (
    load(name)["rules"] for name in ("c4", "c4_jmlr", "c4_tfds")
  )
  assert (paper.min_sentences_per_page, paper.min_words_per_line) == (3, 5)
  assert (tfds.min_sentences_per_page, tfds.min_words_per_line) == (3, 5)
  assert (jmlr.min_sentences_per_page, jmlr.min_words_per_line) == (5, 3)


def test_a_binding_of_the_command_line():
  rules = load("c4", ["Rules.min_words_per_line=4"])["rules"]
  assert rules.min_words_per_line == 4
  with pytest.raises(UserError, match="must be"):
    load("c4", ["Rules.min_words_per_line='4'"])
