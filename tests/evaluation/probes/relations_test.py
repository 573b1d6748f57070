"""LAMA and mLAMA as their authors write them, and rows that are no facts."""

import json

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.probes import relations

ANN = {"uuid": "1", "sub_label": "Ann", "obj_label": "Oslo", "sub_uri": "Q1"}
BO = {"uuid": "2", "sub_label": "Bo", "obj_label": "Lima"}


def written(path, *rows):
  path.parent.mkdir(exist_ok=True, parents=True)
  path.write_text("\n".join(map(json.dumps, rows)))
  return path


def test_a_relation_of_trex_has_the_template_beside_its_folder(tmp_path):
  written(
    tmp_path / "relations.jsonl",
    {"relation": "P17", "template": "[X] is in [Y] .", "type": "N-1"},
    {"relation": "P19", "template": "[X] was born in [Y] .", "type": "N-1"},
  )
  written(tmp_path / "TREx/P19.jsonl", ANN, BO, ANN, {**BO, "sub_label": "Al"})
  (found,) = relations.read(tmp_path / "TREx")
  assert found == relations.Relation(
    "TREx/P19",
    [
      ("Ann was born in ___ .", "Oslo"),
      ("Bo was born in ___ .", "Lima"),
      ("Al was born in ___ .", "Lima"),
    ],
    ["Oslo", "Lima"],
  )


def test_a_language_of_mlama_has_templates_in_its_folder(tmp_path):
  row = {"relation": "P19", "template": "[Y] ist die Heimat von [X] ."}
  written(tmp_path / "de/templates.jsonl", row)
  english = {**BO, "from_english": True}
  written(tmp_path / "de/P19.jsonl", {**ANN, "lineid": 7}, english)
  written(tmp_path / "de/P20.jsonl", {**english, "masked_sentences": []})
  (found,) = relations.read(tmp_path / "de")
  assert found.name == "de/P19"
  assert found.facts == [("___ ist die Heimat von Ann .", "Oslo")]


def test_google_re_leaves_out_what_judges_deny(tmp_path):
  yes, no = {"rater": "1", "judgment": "yes"}, {"rater": "2", "judgment": "no"}
  path = written(
    tmp_path / "place_of_birth_test.jsonl",
    {**ANN, "judgments": [yes, no], "masked_sentences": ["Ann, of [MASK]."]},
    {**BO, "judgments": [no, no, yes]},
  )
  (found,) = relations.read(path)
  assert found.facts == [("Ann was born in ___ .", "Oslo")]
  assert found.name.endswith("/place_of_birth")


def test_sentences_have_gaps_of_their_own(tmp_path):
  path = written(
    tmp_path / "ConceptNet/test.jsonl",
    {"obj_label": "fly", "masked_sentences": ["Birds can [MASK] ."]},
    {"obj_label": "fly", "masked_sentences": ["[MASK] " + "so " * 100]},
  )
  (found,) = relations.read(path)
  assert found == relations.Relation(
    "ConceptNet/test", [("Birds can ___ .", "fly")], []
  )


@pytest.mark.parametrize(
  ("row", "message"),
  [
    (
      {"sub_label": "a"},
      "line 1 of '.*P1.jsonl' lacks obj_label; it is a text",
    ),
    (
      {"obj_label": 3},
      "line 1 of '.*P1.jsonl' has obj_label=3; it takes a text",
    ),
    (
      {"obj_label": " "},
      "line 1 of '.*P1.jsonl' has obj_label=' '; it is a te",
    ),
    (
      {"obj_label": "a", "masked_sentences": ["b"]},
      r"line 1 of '.*' has \[MASK\] 0 times in its masked_sentences, and no "
      "file templates.jsonl or relations.jsonl has a template",
    ),
  ],
)
def test_rows_that_are_no_facts_are_refused(tmp_path, row, message):
  path = written(tmp_path / "P1.jsonl", row)
  with pytest.raises(UserError, match=message):
    relations.read(path)


def test_templates_that_are_none_are_refused(tmp_path):
  path = written(tmp_path / "de/P1.jsonl", ANN)
  row = {"relation": "P1", "template": "[X] is"}
  written(tmp_path / "de/templates.jsonl", row)
  with pytest.raises(UserError, match=r"it takes \[X\] and \[Y\], each once"):
    relations.read(path)
  written(tmp_path / "de/templates.jsonl", {**row, "template": "[X] is [Y]"})
  written(path, {"obj_label": "a"})
  with pytest.raises(UserError, match="lacks sub_label, which its template"):
    relations.read(path)


def test_files_without_facts_are_refused(tmp_path):
  with pytest.raises(UserError, match="has no facts"):
    relations.read(tmp_path)
  with pytest.raises(UserError, match="cannot read the facts"):
    relations.read(tmp_path / "absent.jsonl")
