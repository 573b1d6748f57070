"""Evaluation by length: each example once, narrow, and nothing else changed."""

import dataclasses

import numpy as np
import pytest

from transformer_zoo.data.features import converters
from transformer_zoo.data.features import prompts
from transformer_zoo.data.loader import evaluation_split
from transformer_zoo.data.loader import loader
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

LENGTHS = {"inputs": 200, "targets": 64}


@pytest.fixture(scope="module")
def lengths():
  rng = np.random.default_rng(0)
  return np.stack(
    [rng.integers(1, 201, 90), rng.integers(1, 65, 90)], axis=1
  ).astype(np.int32)


@pytest.fixture
def task(make_task, lengths):
  """Ninety examples of random lengths."""
  examples = []
  for place, (inputs, targets) in enumerate(lengths):
    # Five are longer than what is evaluated, by their inputs or their targets.
    extra = (100, 0) if place < 3 else (0, 80) if place < 5 else (0, 0)
    examples.append(
      {
        "inputs": np.array([3 + place % 60] + [5] * (inputs - 1 + extra[0])),
        "targets": np.array([3 + place % 40] + [6] * (targets - 1 + extra[1])),
        "idx": place,
      }
    )
  return make_task("long", examples)


@pytest.mark.parametrize(
  "feature, length, expected",
  [
    ("inputs", 512, (80, 112, 160, 232, 344, 512)),
    ("inputs", 72, (72,)),
    ("inputs", 1, (1,)),
    ("targets", 97, (16, 24, 48, 97)),
    ("targets", 16, (16,)),
  ],
)
def test_widths(feature, length, expected):
  assert evaluation_split.widths(feature, length) == expected


def test_groups_are_full_sorted_and_as_narrow_as_allowed(lengths):
  limits = [
    evaluation_split.widths(feature, length)
    for feature, length in LENGTHS.items()
  ]
  groups = evaluation_split.group(lengths, limits, 8)
  assert sorted(np.concatenate([places for places, _ in groups])) == list(
    range(90)
  )
  assert [len(places) for places, _ in groups] == [8] * 11 + [2]
  for places, widths in groups:
    for column, allowed, width in zip(
      lengths[places].T, limits, widths, strict=True
    ):
      assert width == min(w for w in allowed if w >= column.max())
  inputs = [widths[0] for _, widths in groups]
  assert inputs == sorted(inputs, reverse=True) and len(set(inputs)) > 2
  padded = sum(8 * widths[0] for _, widths in groups)
  assert padded < 0.7 * 96 * LENGTHS["inputs"]


def test_the_same_rows_as_without_groups(task):
  plain = [
    {key: row for key, row in zip(batch, rows, strict=True)}
    for batch, texts in loader.evaluation_batches(
      task, split="train", lengths=LENGTHS, batch_size=7
    )
    for rows, _ in zip(zip(*batch.values(), strict=True), texts, strict=False)
  ]
  split = EvaluationSplit(task, "train", LENGTHS, 16)
  assert split.num_batches == 6 and split.num_examples == len(plain) == 90
  seen = []
  for batch in split:
    for row, place in enumerate(batch.places):
      seen.append(place)
      assert batch.texts[row]["idx"] == place
      for key, values in batch.arrays.items():
        width = values.shape[1]
        np.testing.assert_array_equal(values[row], plain[place][key][:width])
        assert not plain[place][key][width:].any()
      for feature, ids in batch.ids[row].items():
        assert len(ids) <= LENGTHS[feature] and ids[-1] != 0
    filling = batch.arrays["decoder_loss_weights"][len(batch.places) :]
    assert len(filling) == 16 - len(batch.places) and not filling.any()
  assert sorted(seen) == list(range(90))


def test_truncated_examples_are_counted(task, lengths):
  def expected(number):
    longer = np.arange(90) < 3, (np.arange(90) >= 3) & (np.arange(90) < 5)
    grown = lengths + 100 * np.stack(longer, axis=1) * [1, 0.8]
    counts = (grown > [200, 64])[:number].sum(axis=0)
    return {"inputs": counts[0], "targets": counts[1]}

  split = EvaluationSplit(task, "train", LENGTHS, 16)
  assert split.truncated == expected(90) and any(split.truncated.values())
  some = EvaluationSplit(task, "train", LENGTHS, 16, max_examples=2)
  assert some.truncated == expected(2) and some.num_examples == 2
  wide = EvaluationSplit(task, "train", {"inputs": 999, "targets": 999}, 16)
  assert wide.truncated == {"inputs": 0, "targets": 0}


@pytest.mark.parametrize(
  ("max_examples", "rows"), [(1, 2), (2, 5), (3, 6), (9, 6)]
)
def test_a_question_with_its_choices_is_one_example(
  make_task, max_examples, rows
):
  examples = [
    {
      "inputs": np.array([5]),
      "targets": np.array([6]),
      "idx": np.array([question, choice]),
      "is_correct": np.array(choice == 0),
    }
    for question, choices in enumerate((2, 3, 1))
    for choice in range(choices)
  ]
  task = make_task("ranked", examples)
  split = EvaluationSplit(task, "train", LENGTHS, 4, max_examples=max_examples)
  assert split.num_examples == rows


@pytest.mark.parametrize(
  "of", [converters.EncoderDecoder(), converters.LanguageModel()]
)
def test_outputs_are_made_behind_a_prompt(make_task, lengths, of):
  """What is read before them is what is read before targets."""
  examples = [
    {"inputs": np.full(n, 5 + i), "targets": np.full(3, 9)}
    for i, (n, _) in enumerate(lengths[:6])
  ]
  task = dataclasses.replace(
    make_task("prompted", examples), scoring=manifest.Scoring(None, ())
  )
  converter = prompts.prompted(of, 4)
  (batch,) = EvaluationSplit(task, "train", LENGTHS, 8, converter=converter)
  assert batch.prompt_length == 4
  ids = prompts.FIRST_ID + np.arange(4)
  for row, place in enumerate(batch.places):
    length = batch.input_lengths[row]
    text = batch.inputs[row, 4:length]
    np.testing.assert_array_equal(batch.inputs[row, :4], ids)
    assert length == 4 + len(text) and not batch.inputs[row, length:].any()
    assert (text[text > 1] == 5 + place).all() and (text > 1).any()
    side = "encoder" if of == converters.EncoderDecoder() else "decoder"
    read = batch.arrays[f"{side}_input_tokens"][row]
    first = int(np.argmax(read == prompts.FIRST_ID))
    np.testing.assert_array_equal(
      read[first : first + length], batch.inputs[row, :length]
    )


def test_refuses_no_examples(task):
  with pytest.raises(UserError, match="examples 0 must be 1 or more; leave"):
    EvaluationSplit(task, "train", LENGTHS, 16, max_examples=0)


@pytest.mark.parametrize("eos_after_trim", [True, False])
def test_a_text_to_continue_keeps_its_end(make_task, eos_after_trim):
  """As `zoo infer` cuts it; what an encoder or a prefix reads loses its end."""
  example = {
    "inputs": np.array([5, 6, 7, 8, 9, 1]),
    "targets": np.array([10, 11, 12, 13, 1]),
  }
  task = dataclasses.replace(
    make_task("long", [example], eos_after_trim=eos_after_trim),
    scoring=manifest.Scoring(None, ()),
  )

  def inputs_of(converter):
    lengths = {"inputs": 3, "targets": 3}
    split = EvaluationSplit(task, "train", lengths, 1, converter=converter)
    (batch,) = split
    assert batch.ids[0]["targets"].tolist() == [10, 11, last]
    return batch.inputs[0, : batch.input_lengths[0]].tolist()

  last = 1 if eos_after_trim else 12
  end = [1] if eos_after_trim else [7]
  assert inputs_of(converters.LanguageModel()) == [7, 8, 9]
  assert inputs_of(converters.EncoderDecoder()) == [5, 6, *end]
  assert inputs_of(converters.PrefixLanguageModel()) == [5, 6, *end]
