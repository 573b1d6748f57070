"""Prompts for language models: heuristics, pairs, TL;DR, demonstrations."""

import pytest
import seqio
import tensorflow as tf

import mixtures  # noqa: F401 (registers them)
from tasks.formats import zero_shot
from tasks.miniature import vocabulary
from transformer_zoo.data.prepare.preparation import prepare
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.evaluation.metrics import classification

pytestmark = pytest.mark.usefixtures("few_examples")

EOS, UNKNOWN = 1, 2


def rows(**columns):
  return tf.data.Dataset.from_tensor_slices(columns)


def read(dataset):
  return list(dataset.as_numpy_iterator())


def dataset_of(name):
  task = seqio.TaskRegistry.get(name)
  return task.get_dataset(None, split="validation", shuffle=False)


def examples(name):
  return read(dataset_of(name))


def first(name):
  return next(dataset_of(name).as_numpy_iterator())


def texts(found):
  return [(e["inputs"].decode(), e["targets"].decode()) for e in found]


def test_candidates_stand_in_the_place_of_a_mark():
  dataset = rows(
    text=["The cup is in the bag as _ is big.", "_ and _ met."],
    one=["cup", "Ann"],
    two=["bag", "Bob"],
    label=[1, 0],
  )
  found = read(
    zero_shot.substituted(
      dataset, text="text", candidates=("one", "two"), mark="_"
    )
  )
  assert texts(found) == [
    ("The cup is in the bag as cup", "is big."),
    ("The cup is in the bag as bag", "is big."),
    ("Ann", "and _ met."),
    ("Bob", "and _ met."),
  ]
  assert [e["idx"].tolist() for e in found] == [[0, 0], [0, 1], [1, 0], [1, 1]]
  assert [e["is_correct"] for e in found] == [False, True, True, False]


def test_the_right_candidate_may_be_a_text():
  dataset = rows(text=["a *it* b"], c=[["x", "y"]], label=["y"])
  found = read(
    zero_shot.substituted(dataset, text="text", candidates="c", mark=r"\*it\*")
  )
  assert texts(found) == [("a x", "b"), ("a y", "b")]
  assert [e["is_correct"] for e in found] == [False, True]


def test_the_pronoun_is_marked_as_a_word():
  dataset = rows(
    sentence=["There the teacher said he came."], pronoun=["he"], label=[0]
  )
  (found,) = read(zero_shot.mark_pronoun(dataset))
  assert found["sentence"] == b"There the teacher said _ came."


def test_a_sentence_is_judged_behind_nothing():
  dataset = rows(s=["Good.", "Bad ."], label=[1, 0])
  found = read(zero_shot.judged(dataset, sentence="s", acceptable=1))
  assert texts(found) == [("", "Good."), ("", "Bad .")]
  assert [e["is_correct"] for e in found] == [True, False]
  assert [e["idx"].tolist() for e in found] == [[0, 0], [1, 0]]


@pytest.mark.slow
def test_a_model_that_knows_the_answers_scores_all():
  """Sums of log-likelihoods as of a model that prefers what is right."""
  for name in seqio.MixtureRegistry.get("zero_shot_miniature").tasks:
    found = examples(name.name)
    targets = [
      name.postprocessor(
        "", example={**e, "targets": e["targets"]}, is_target=True
      )
      for e in found
    ]
    (metric,) = name.score_metric_fns
    scores = [
      -len(e["targets"]) * (1.0 if e["is_correct"] else 2.0) for e in found
    ]
    values = metric(targets, scores)
    assert max(values.values()) == 100.0, name.name
    assert max(metric(targets, [-s for s in scores]).values()) < 60


@pytest.mark.slow
def test_a_language_model_continues_what_it_is_asked():
  for mixture in ("zero_shot_miniature", "miniature_2_shot"):
    for task in seqio.MixtureRegistry.get(mixture).tasks:
      example = first(task.name)
      assert EOS not in example["inputs"]
      assert UNKNOWN not in example["inputs"]
      assert UNKNOWN not in example["targets"]
      # In the heuristics no EOS is compared either.
      generated = mixture == "miniature_2_shot"
      assert (example["targets"][-1] == EOS) == generated


@pytest.mark.slow
def test_demonstrations_are_pairs_of_sentences():
  example = first("mini_translate_2_shot")
  text = example["inputs_pretokenized"].decode()
  assert text.count(" : ") == 3 and text.endswith(" : ")
  english, talu = text.split(" : ")[0], text.split(" : ")[1]
  assert english.endswith(".") and talu.count(".") == 2
  zero = first("mini_translate_0_shot")["inputs_pretokenized"].decode()
  assert text.endswith(zero)
  summary = first("mini_tldr_1_shot")
  assert summary["inputs_pretokenized"].decode().count("tl;dr:") == 2


@pytest.mark.slow
def test_templates_behind_demonstrations_are_a_set_of_their_own(
  tmp_path,
):
  names = {}
  for shots in (0, 1):
    prepared = prepare(
      f"mini_wic_{shots}_shot", prepared_dir=tmp_path, splits=["validation"]
    )
    names[shots] = prepared.tasks[0].template_of
  assert names == {
    0: "prompted_mini_wic 0-shot",
    1: "prompted_mini_wic 1-shot",
  }


def test_the_heuristics_of_the_paper_are_registered():
  mixture = seqio.MixtureRegistry.get("zero_shot_gpt")
  metrics = {
    task.name: getattr(metric, "func", metric)
    for task in mixture.tasks
    for metric in task.score_metric_fns
  }
  ranked = classification.rank_classification
  assert metrics == {
    "zero_shot_sst2_very": ranked,
    "zero_shot_race_high": ranked,
    "zero_shot_race_middle": ranked,
    "zero_shot_dpr": ranked,
    "zero_shot_winogrande": ranked,
    "zero_shot_cola": classification.acceptability,
  }
  names = seqio.TaskRegistry.names()
  assert "zero_shot_cnn_dailymail_tldr" in names
  assert "few_shot_wmt14_enfr_pairs" in names


def test_the_miniature_vocabulary_has_the_words_between():
  found = Vocabulary(vocabulary.PATH)
  for text in ("tl;dr:", ":", "very"):
    assert UNKNOWN not in found.encode(text)
