"""Manifests: names that are no folders, and damaged contents."""

import json

import pytest

from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError


@pytest.mark.parametrize(
  "name", ["", "..", "../other", "/tmp", "a\\b", "vocabularies", "a\0"]
)
def test_names_that_are_no_folders_of_their_own(name, tmp_path):
  for function in (manifest.load, manifest.load_task):
    with pytest.raises(UserError, match="cannot be the name of a task or mix"):
      function(name, tmp_path)


@pytest.mark.parametrize(
  ("change", "sentence"),
  [
    ({"features": "inputs"}, "has features='inputs'; it takes a list"),
    ({"kind": "tables"}, "has kind='tables'; it takes 'examples' or 'tokens'"),
    ({"splits": {"train": []}}, "has splits.train=[]; it takes a table"),
    ({"splits": {"train": {}}}, "lacks splits.train.num_examples"),
    ({"vocabulary": {"file": 3}}, "has vocabulary.file=3; it takes a text"),
    ({"scoring": {"metrics": []}}, "lacks scoring.postprocess; it is a table"),
    ({"format": "3"}, "have format '3', not 3; run `zoo prepare` again"),
  ],
)
def test_values_of_other_types_are_named(
  change, sentence, make_task, short_examples, tmp_path
):
  task = make_task("few", short_examples(3))
  manifest.save_task(task, task.folder)
  assert manifest.load_task("few", tmp_path) == task
  path = tmp_path / "few" / "manifest.json"
  path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
  with pytest.raises(UserError) as error:
    manifest.load_task("few", tmp_path)
  assert sentence in str(error.value)


def test_a_mixture_of_other_types_is_named(tmp_path):
  (tmp_path / "m.mixture.json").write_text('{"tasks": ["a"], "rates": "1"}')
  with pytest.raises(UserError, match="has rates='1'; it takes a list"):
    manifest.load("m", tmp_path)
