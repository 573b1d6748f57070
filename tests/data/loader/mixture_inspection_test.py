import types

import numpy as np
import pytest

from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader import mixture_inspection
from transformer_zoo.data.loader.batches import count_repeats
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

LENGTHS = {"inputs": 24, "targets": 16}


@pytest.fixture
def mixture(make_task, short_examples):
  return manifest.PreparedMixture(
    "both",
    (
      make_task("large", short_examples(300)),
      make_task("small", short_examples(100, seed=1)),
      make_task("seen", short_examples(10, seed=2), split="validation"),
    ),
    (300.0, 300.0, 0.0),
  )


def test_epochs_of_rows_with_one_example(mixture):
  found = mixture_inspection.inspect_mixture(mixture, steps=10, batch_size=60)
  assert (found["rows"], found["examples_per_row"]) == (600, 1.0)
  large, small, seen = found["tasks"]
  assert (large["examples"], large["share"], large["epochs"]) == (300, 0.5, 1)
  assert (small["examples"], small["share"], small["epochs"]) == (100, 0.5, 3)
  assert (seen["examples"], seen["share"], seen["epochs"]) == (0, 0, None)


def test_epochs_of_packed_rows_are_those_of_the_loader(mixture):
  steps, batch_size = 20, 8
  found = mixture_inspection.inspect_mixture(
    mixture, steps=steps, batch_size=batch_size, lengths=LENGTHS
  )
  batches = loader.training_batches(
    mixture, split="train", lengths=LENGTHS, batch_size=batch_size, seed=0
  )
  examples = sum(
    int(np.max(next(batches)["decoder_segment_ids"], axis=1).sum())
    for _ in range(steps)
  )
  assert found["examples_per_row"] == examples / found["rows"] > 1.5
  assert found["tasks"][1]["epochs"] == pytest.approx(examples / 2 / 100)


def test_table(mixture):
  mixture_text = mixture_inspection.as_text(
    mixture_inspection.inspect_mixture(
      mixture,
      declared={"seen": ("train", "validation")},
      steps=10,
      batch_size=60,
    )
  )
  lines = mixture_text.splitlines()
  assert lines[0].split() == [
    *("task", "examples", "rate", "share", "epochs", "splits")
  ]
  assert lines[1].split() == ["large", "300", "300", "50.00%", "1.00", "train"]
  assert lines[3].endswith("-  validation; missing splits: train")
  assert lines[4] == (
    "epochs: 10 steps of 60 rows, one example a row (not packed; --length "
    "packs)"
  )
  without = mixture_inspection.as_text(
    mixture_inspection.inspect_mixture(mixture)
  )
  assert "epochs" not in without


def test_a_rate_without_training_examples_is_refused(mixture):
  wrong = manifest.PreparedMixture("both", mixture.tasks, (1.0, 1.0, 2.0))
  with pytest.raises(
    UserError,
    match="'seen' of mixture 'both' has the rate 2 but no training split on",
  ):
    mixture_inspection.inspect_mixture(wrong)


@pytest.mark.parametrize("steps, batch_size", [(0, 8), (10, 0)])
def test_impossible_runs_are_refused(mixture, steps, batch_size):
  with pytest.raises(UserError, match=f"--steps {steps} and --batch_size"):
    mixture_inspection.inspect_mixture(
      mixture, steps=steps, batch_size=batch_size
    )


def test_members_that_cannot_be_read_are_named():
  def absent(split):
    raise UserError(f"No file for {split}.")

  def member(name, list_shards):
    source = types.SimpleNamespace(list_shards=list_shards)
    return types.SimpleNamespace(name=name, splits=["train"], source=source)

  members = [
    member("a", absent),
    member("b", lambda _: []),
    member("c", absent),
  ]
  with pytest.raises(
    UserError,
    match="'m' has members that cannot be read: a, c. a: No file for train.",
  ):
    mixture_inspection.check_readable("m", members)
  mixture_inspection.check_readable("m", members[1:2])


@pytest.fixture
def unlabelled(make_task, short_examples, stream):
  return manifest.PreparedMixture(
    "text_too",
    (
      make_task("labelled", short_examples(100)),
      make_task("text", stream(60), kind="tokens"),
    ),
    (1.0, 1.0),
  )


def test_epochs_of_unlabelled_text_are_those_of_a_run(unlabelled):
  """An epoch of text has as many examples as the lengths cut out of it."""
  found = mixture_inspection.inspect_mixture(
    unlabelled, steps=20, batch_size=8, lengths=LENGTHS
  )
  batches = loader.open_batches(
    unlabelled, split="train", lengths=LENGTHS, batch_size=8, seed=0
  )
  of_run = count_repeats(batches, 20, exact=True)
  for task in found["tasks"]:
    assert task["epoch"] == of_run[task["name"]].examples
    assert task["epochs"] == pytest.approx(of_run[task["name"]].epochs, rel=0.1)
  text = found["tasks"][1]
  assert (text["examples"], text["counted"]) == (60, "documents")
  told = f"text: 60 documents, {text['epoch']:,} examples of these lengths"
  assert told in mixture_inspection.as_text(found)


def test_without_lengths_text_has_no_epochs(unlabelled):
  found = mixture_inspection.inspect_mixture(unlabelled, steps=20, batch_size=8)
  labelled, text = found["tasks"]
  assert labelled["epochs"] == 0.8
  assert (text["epoch"], text["epochs"]) == (None, None)
  lines = mixture_inspection.as_text(found).splitlines()
  assert "documents or examples" in lines[0]
  assert lines[2].split()[-2:] == ["-", "train"]
  assert lines[3] == (
    f"text: {text['examples']} documents, out of which the lengths of a run "
    "(--length) make examples"
  )
