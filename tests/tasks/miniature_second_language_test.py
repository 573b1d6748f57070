"""Talu, the second language: its text, its vocabularies, its tasks."""

import pathlib
import re

import pytest
import sentencepiece
import seqio

import tasks  # noqa: F401
from tasks.miniature.examples import splits
from tasks.miniature.second_language import vocabulary
from tasks.miniature.second_language import writing
from tasks.miniature.world import world

WORLD = world.World()


def read(split):
  return splits.examples(writing.entailment, stream=20, split=split)


def test_documents_repeat_and_have_one_language():
  talu = {
    *WORLD.second_language.values(),
    *writing.class_words(WORLD).values(),
    *(writing.WAS, writing.IS_IT, writing.YES, writing.UNKNOWN, writing.NO),
  }
  for language in ("talu", "english"):
    some = writing.documents(language, start=3, count=300)
    assert some[:2] == writing.documents(language, start=3, count=2)
    assert len(set(some)) > 290
    words = {word for text in some for word in re.findall(r"\w+", text)}
    assert not words - talu if language == "talu" else not words & talu


def test_splits_are_disjoint_and_labels_follow_from_the_world():
  texts = {}
  classes = writing.class_words(WORLD)
  kinds = {c[0]: k for k in writing.KINDS for c in WORLD.everything.nouns[k]}
  english = {talu: word for word, talu in WORLD.second_language.items()}
  for split in world.SPLITS:
    rows = read(split)
    texts[split] = {row["talu"] + row["talu_claim"] for row in rows}
    for row in rows:
      _, subject, thing, colour = row["talu"].removesuffix(".").split()
      assert row["english"].endswith(f"the {english[colour]} {english[thing]}.")
      assert row["english"].startswith(f"the {english[subject]} ")
      said = {
        classes[kinds[english[thing]]]: "entailment",
        **{c: "contradiction" for k, c in classes.items()
           if k != kinds[english[thing]]},
      }  # fmt: skip
      assert row["label"] == said.get(row["talu_claim"], "neutral")
      assert row["talu_claim"] != colour
  assert not texts["train"] & (texts["validation"] | texts["test"])


@pytest.mark.slow
def test_vocabularies_are_those_that_training_writes(tmp_path):
  vocabulary.train(tmp_path)
  for path in map(pathlib.Path, (vocabulary.OWN, vocabulary.EXTENDED)):
    assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_the_suites_vocabulary_begins_the_extended_one():
  suite, extended, own = (
    sentencepiece.SentencePieceProcessor(model_file=path)
    for path in (
      vocabulary.of_suite.PATH, vocabulary.EXTENDED, vocabulary.OWN,
    )
  )  # fmt: skip
  number = suite.get_piece_size()
  assert [extended.id_to_piece(i) for i in range(number)] == [
    suite.id_to_piece(i) for i in range(number)
  ]
  assert extended.get_piece_size() == number + 68
  texts = writing.documents("talu", count=50)
  lengths = [sum(map(len, v.encode(texts))) for v in (suite, extended, own)]
  assert lengths[1] < 0.6 * lengths[0] and lengths[2] < 0.6 * lengths[0]
  for text in [*texts, "talu_nli claim: purple premise: the otter hid it?"]:
    assert own.unk_id() not in own.encode(text)


@pytest.mark.slow
@pytest.mark.parametrize(("end", "size"), [
  ("", 1664), ("_own", 310), ("_extended", 1732),
])  # fmt: skip
def test_tasks_of_each_vocabulary(end, size, few_examples):
  lengths = {"inputs": 96, "targets": 32}
  of_english = seqio.get_mixture_or_task(f"en_talu_nli{end}")
  assert of_english.output_features["inputs"].vocabulary.vocab_size == size
  train, validation = (
    next(of_english.get_dataset(lengths, split).as_numpy_iterator())
    for split in ("train", "validation")
  )
  assert b"premise: the " in train["inputs_pretokenized"]
  assert b"the" not in validation["inputs_pretokenized"]
  prompted = seqio.get_mixture_or_task(f"prompted_talu_nli{end}")
  assert sorted(task.name for task in prompted.tasks) == [
    f"prompted_talu_nli_{language}{end}" for language in ("english", "talu")
  ]
  for task in prompted.tasks:
    rows = list(task.get_dataset(lengths, "validation").as_numpy_iterator())
    assert len(rows) == 3 * few_examples["validation"]
    assert sum(row["is_correct"] for row in rows) == len(rows) / 3
