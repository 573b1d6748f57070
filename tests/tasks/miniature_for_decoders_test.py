"""The miniature tasks of writers: disjoint splits, answers from their text."""

import collections
import functools

import pytest
import seqio

import tasks  # noqa: F401 (registers them)
from tasks.miniature.examples import reading
from tasks.miniature.examples import splits
from tasks.miniature.for_decoders import examples as written
from tasks.miniature.world import world
from transformer_zoo.evaluation.answers import post_processors

WRITERS = {
  "mini_eli5": (written.long_answer, 15),
  "mini_xsum": (reading.summary, 16),
  "mini_convai2": (written.talk, 17),
  "mini_highlights": (written.highlights, 18),
}
PARAGRAPHS = "mini_translate_paragraphs"
WEIGHTS = "mini_weigh_tens", "mini_weigh_twos", "mini_weigh_digits"


@functools.cache
def read(name, split):
  write, stream = WRITERS[name]
  return splits.examples(write, stream=stream, split=split, own_words=False)


@pytest.mark.parametrize("name", WRITERS)
def test_splits_repeat_and_are_disjoint(name):
  texts = {}
  for split in world.SPLITS:
    rows = read(name, split)
    assert len(rows) == splits.SIZES[split]
    texts[split] = {repr(row) for row in rows}
    assert split == "train" or len(texts[split]) == len(rows)
  assert not texts["train"] & (texts["validation"] | texts["test"])
  assert not texts["validation"] & texts["test"]


def test_highlights_stand_in_the_report():
  for row in read("mini_highlights", "validation"):
    for sentence in row["highlights"].split(". "):
      assert sentence.rstrip(".") in row["document"]


def test_the_response_is_of_the_persona():
  for row in read("mini_convai2", "validation"):
    answer, _, _ = row["response"].partition(". ")
    assert answer in row["persona"]


def test_answers_begin_with_the_class_and_tell_three_more_things():
  for row in read("mini_eli5", "validation"):
    noun = row["question"].removeprefix("what is ").rstrip("?")
    sentences = row["answer"].split(". ")
    assert sentences[0].startswith(f"{noun} is ")
    assert len(sentences) == 4


@pytest.mark.parametrize("name", WRITERS)
def test_texts_fit_the_suite_and_are_scored_without_being_written(name):
  task = seqio.get_mixture_or_task(name)
  assert [metric.__name__ for metric in task.metric_fns] == ["perplexity"]
  rows = task.get_dataset(
    {"inputs": 1000, "targets": 1000}, "validation", shuffle=False
  )
  for row in rows.take(50).as_numpy_iterator():
    assert len(row["inputs"]) <= 72 and len(row["targets"]) <= 48


def test_paragraphs_have_one_to_four_sentences_of_both_languages():
  counts = collections.Counter()
  for row in splits.examples(
    written.paragraph, stream=20, split="validation", own_words=False
  ):
    english, talu = (row[name].count(".") for name in ("english", "talu"))
    assert english == talu
    counts[english] += 1
  assert set(counts) == {1, 2, 3, 4}


@pytest.mark.parametrize("name", [PARAGRAPHS, "mini_weigh_digits"])
def test_targets_from_right_to_left_are_read_as_those_from_left_to_right(name):
  forwards, backwards = map(
    seqio.get_mixture_or_task, (name, f"{name}_right_to_left")
  )
  lengths = {"inputs": 72, "targets": 48}
  pairs = zip(
    *(
      task.get_dataset(lengths, "validation", shuffle=False)
      .take(20)
      .as_numpy_iterator()
      for task in (forwards, backwards)
    ),
    strict=True,
  )
  for one, other in pairs:
    text, turned = (
      example["targets_pretokenized"].decode() for example in (one, other)
    )
    assert turned.split() == text.split()[::-1] != text.split()
    assert one["inputs"].tolist() == other["inputs"].tolist()
    assert backwards.postprocess_fn(turned) == forwards.postprocess_fn(text)
    assert backwards.postprocess_fn(
      turned, example=other, is_target=True
    ) == forwards.postprocess_fn(text, example=one, is_target=True)


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "error"), list(zip(WEIGHTS, (5, 1, 0), strict=True))
)
def test_weights_are_told_as_exactly_as_their_text_allows(name, error):
  task = seqio.get_mixture_or_task(name)
  rows = task.get_dataset(
    {"inputs": 72, "targets": 16}, "validation", shuffle=False
  )
  errors, answers = [], set()
  for row in rows.as_numpy_iterator():
    assert len(row["inputs"]) < 72 and len(row["targets"]) < 16
    text = row["targets_pretokenized"].decode()
    weight = task.postprocess_fn(text, example=row, is_target=True)
    answers.add(weight)
    errors.append(abs(task.postprocess_fn(text) - weight))
    spelled = task.output_features["targets"].vocabulary.decode(
      row["targets"].tolist()
    )
    assert post_processors.spelled_number(spelled) == task.postprocess_fn(text)
  assert max(errors) <= error + 1e-9
  assert error == 0 or max(errors) > error / 2
  assert len(answers) > 150
