"""RACE, HellaSwag and SWAG as text."""

import pytest
import seqio

import tasks  # noqa: F401
from tests.tasks import tfds_rows


@pytest.mark.parametrize("task", ["race_high_v200", "race_middle_v200"])
def test_race_has_an_example_for_each_question(task):
  row = {
    "article": "It rained.\nAll day.",
    "questions": ["How was it?", "The day was  _  ."],
    "options": [["dry", "wet", "hot", "cold"], ["a b", "c", "d", "e"]],
    "answers": ["B", "D"],
    "example_id": "high1.txt",
  }
  examples = tfds_rows.text_of(task, row)
  assert [(x["inputs"].decode(), x["targets"], x["idx"]) for x in examples] == [
    (
      "race question: How was it? choice1: dry choice2: wet choice3: hot "
      "choice4: cold article: It rained.\nAll day.",
      b"choice2",
      b"high1.txt/0",
    ),
    (
      "race question: The day was  _  . choice1: a b choice2: c choice3: d "
      "choice4: e article: It rained.\nAll day.",
      b"choice4",
      b"high1.txt/1",
    ),
  ]


def test_race_with_other_options_and_without_an_answer():
  row = {
    "article": "It rained.",
    "questions": ["one?", "none?"],
    "options": [["only"], []],
    "answers": ["A", ""],
    "example_id": "x",
  }
  assert tfds_rows.texts_of("race_high_v200", row) == [
    ("race question: one? choice1: only article: It rained.", "choice1"),
    ("race question: none?  article: It rained.", "<unk>"),
  ]
  empty = row | {"questions": [], "options": [], "answers": []}
  assert tfds_rows.texts_of("race_high_v200", empty) == []


@pytest.mark.parametrize(
  "label, target", [(0, "choice1"), (3, "choice4"), (-1, "<unk>")]
)
def test_hellaswag(label, target):
  row = {
    "context": "He sits down. He",
    "endings": ["eats.", "flies.", "sings.", "falls."],
    "activity_label": "Roofing",
    "label": label,
    "split_type": "indomain",
    "source_id": "activitynet~v_1",
  }
  assert tfds_rows.texts_of("hellaswag_v110", row) == [
    (
      "hellaswag choice1: eats. choice2: flies. choice3: sings. choice4: "
      "falls. activity_label: Roofing context: He sits down. He",
      target,
    )
  ]


@pytest.mark.parametrize("task", ["race_high_v200", "hellaswag_v110", "swag"])
def test_choices_are_scored_as_classes(task):
  task = seqio.TaskRegistry.get(task)
  answers = [
    task.postprocess_fn(text, example={}, is_target=False)
    for text in ("choice1", "choice4", "choice5", "the first")
  ]
  assert answers == [0, 3, -1, -1]
  (metric,) = task.metric_fns
  assert metric([0, 3, 1, 1], answers) == {"accuracy": 50}


def test_swag(monkeypatch, tmp_path):
  monkeypatch.setenv("ZOO_DATA_DIR", str(tmp_path))
  (tmp_path / "swag").mkdir()
  (tmp_path / "swag" / "val.csv").write_text(
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,"
    "ending2,ending3,label\n"
    '0,lsmdc-94857,18313,Students wait. She,Students wait.,She,gold,"pats her, '
    'then goes.",turns.,walks.,wheels around.,2\n'
  )
  task = seqio.TaskRegistry.get("swag")
  (row,) = task.source.get_dataset("validation").as_numpy_iterator()
  assert row["inputs"].decode() == (
    "swag choice1: pats her, then goes. choice2: turns. choice3: walks. "
    "choice4: wheels around. context: Students wait. She"
  )
  assert row["targets"] == b"choice3"
