"""The miniature tasks of encoders: disjoint splits, labels that are right."""

import functools
import pathlib
import re

import pytest
import seqio

from tasks.formats import forms
from tasks.miniature.examples import splits
from tasks.miniature.for_encoders import examples as written
from tasks.miniature.world import world
from tasks.miniature.world.grammar import a
from transformer_zoo.evaluation.answers import tagged_text

WRITERS = {
  "mini_ner": (written.entities, 11),
  "mini_qnli": (written.answerable, 12),
  "mini_squad2": (written.answerable, 13),
  "mini_race": (written.choice, 14),
}

SIZE = splits.SIZES["validation"]


@functools.cache
def read(name, split):
  write, stream = WRITERS[name]
  return splits.examples(write, stream=stream, split=split)


@pytest.mark.parametrize("name", WRITERS)
def test_splits_repeat_and_are_disjoint(name):
  texts = {}
  for split in world.SPLITS:
    rows = read(name, split)
    if split == "test":
      assert rows == read.__wrapped__(name, split)
    texts[split] = {repr(row) for row in rows}
    assert split == "train" or len(texts[split]) == len(rows)
  assert not texts["train"] & (texts["validation"] | texts["test"])
  assert not texts["validation"] & texts["test"]


def test_entities_are_words_of_their_class():
  whole = world.World().everything
  ambiguous = {each.word: each.senses for each in whole.ambiguous}
  num_ambiguous = 0
  for row in read("mini_ner", "validation"):
    assert len(row["tokens"]) == len(row["tags"])
    found = tagged_text.entities(row["tags"])
    kinds = [kind for kind, _, _ in found]
    assert kinds.count("person") == kinds.count("town") == 1
    ((kind, _, end),) = [e for e in found if e[0] not in ("person", "town")]
    noun = row["tokens"][end - 1]
    if noun in ambiguous:
      num_ambiguous += 1
      assert kind in ambiguous[noun]
    else:
      assert any(noun in concept for concept in whole.nouns[kind])
  assert num_ambiguous == SIZE / 2


def test_half_of_the_questions_have_an_answer_in_their_context():
  answered = 0
  for row in read("mini_squad2", "validation"):
    offered = re.findall(r"\ban? (\w+)", row["context"])
    assert len(set(offered)) == 4
    answered += bool(row["answers"])
    assert (row["label"] == "entailment") == bool(row["answers"])
    if row["answers"]:
      assert row["answer"] in offered
      assert forms.find_answer(row["context"], row["answer"], None) > 0
    else:
      assert row["answer"] == written.NO_ANSWER
  assert answered == SIZE / 2


def test_the_right_choice_is_at_every_place_as_often():
  places = [row["label"] for row in read("mini_race", "validation")]
  assert {label: places.count(label) for label in places} == dict.fromkeys(
    ("choice1", "choice2", "choice3", "choice4"), SIZE / 4
  )
  for row in read("mini_race", "validation"):
    right = row["choices"][int(row["label"][-1]) - 1]
    assert right in {a(kind) for kind in world.THINGS}


def test_a_task_is_made_anew_when_its_code_changes(monkeypatch):
  """That of a room of the suite."""
  source = seqio.TaskRegistry.get("mini_ner").source
  before = source.fingerprint()
  rglob = pathlib.Path.rglob

  def without_a_room(self, pattern):
    return [p for p in rglob(self, pattern) if p.parent.name != "for_encoders"]

  monkeypatch.setattr(pathlib.Path, "rglob", without_a_room)
  assert source.fingerprint() != before
