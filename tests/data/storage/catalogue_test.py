"""The catalogue of tasks and mixtures is kept until a source changes."""

import os
import types

import pytest

from transformer_zoo.data.storage import catalogue
from transformer_zoo.errors import UserError

FILE = "data/raw.json"


class Registry:
  """A registry of SeqIO with some names."""

  def __init__(self, *names):
    self._names = names

  def names(self):
    return self._names

  def get(self, name):
    source = types.SimpleNamespace(places=[os.path.abspath(FILE)])
    return types.SimpleNamespace(
      name=name,
      output_features={"inputs": None},
      source=source,
      tasks=[types.SimpleNamespace(name="sst2")],
    )


@pytest.fixture
def kept(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path / "data"))
  monkeypatch.delenv("ZOO_MODULES", raising=False)
  (tmp_path / "data").mkdir()
  catalogue.save(Registry("sst2"), Registry("glue"))
  return {"tasks": {"sst2": ["inputs"]}, "mixtures": {"glue": ["sst2"]}}


def test_a_kept_catalogue_answers_names(kept):
  assert catalogue.load() == kept
  for name in ("sst2", "glue", "glue:classes"):
    catalogue.check(name)
  with pytest.raises(UserError) as caught:
    catalogue.check("sst3")
  assert str(caught.value).startswith(
    "no task or mixture is named 'sst3'; did you mean 'sst2'?"
  )
  with pytest.raises(UserError, match="no task is named 'glue'"):
    catalogue.check("glue", ["task"])


@pytest.mark.parametrize("change", ["source", "data", "module", "damage"])
def test_whatever_changes_ends_it(kept, tmp_path, monkeypatch, change):
  match change:
    case "source":
      (tmp_path / FILE).touch()
    case "data":
      (tmp_path / "data" / "tfds").mkdir()
    case "module":
      monkeypatch.setenv("ZOO_MODULES", "my_tasks")
    case "damage":
      catalogue._path().write_text("{")
  assert catalogue.load() is None
  catalogue.check("any")  # The registry itself will tell.


def test_nothing_is_kept_of_modules_of_the_users_own(kept, monkeypatch):
  monkeypatch.setenv("ZOO_MODULES", "my_tasks")
  catalogue._path().unlink()
  catalogue.save(Registry("mine"), Registry())
  assert not catalogue._path().exists()
