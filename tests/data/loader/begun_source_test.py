"""Examples that begin with a special token: lengths, rows, cuts."""

import numpy as np
import pytest

from transformer_zoo.data.features import converters
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.loader.sources import open_source

BEGIN = 3
PLAIN = converters.EncoderDecoder(bos_id=2)
BEGUN = converters.EncoderDecoder(bos_id=2, begin_id=BEGIN)
PLACES = np.arange(5)


@pytest.fixture(params=["examples", "tokens"])
def task(request, make_task, short_examples, stream):
  text = short_examples(9) if request.param == "examples" else stream(9)
  return make_task("begun", text, kind=request.param)


def test_it_is_the_source_of_one_token_less_behind_the_first(task):
  with_it = open_source(
    task, "train", {"inputs": 41, "targets": 19}, None, converter=BEGUN
  )
  without = open_source(
    task, "train", {"inputs": 40, "targets": 18}, None, converter=PLAIN
  )
  assert with_it.num_examples == without.num_examples
  assert with_it.shares_rows == without.shares_rows
  lengths = with_it.lengths(PLACES)
  np.testing.assert_array_equal(lengths, without.lengths(PLACES) + 1)
  found = with_it.read(PLACES, 0, PLACES).features
  for name, expected in without.read(PLACES, 0, PLACES).features.items():
    for row, rest in zip(found[name].rows(), expected.rows(), strict=True):
      np.testing.assert_array_equal(row, [BEGIN, *rest])


@pytest.mark.parametrize("begin", [None, BEGIN])
def test_inputs_may_end_behind_their_eos(begin, task):
  """With the code of a language, as mBART's do."""
  ended = converters.EncoderDecoder(bos_id=2, begin_id=begin, end_id=7)
  more = begin is not None
  lengths = {"inputs": 41 + more, "targets": 18 + more}
  with_it = open_source(task, "train", lengths, None, converter=ended)
  without = open_source(
    task, "train", {"inputs": 40, "targets": 18}, None, converter=PLAIN
  )
  np.testing.assert_array_equal(
    with_it.lengths(PLACES), without.lengths(PLACES) + [1 + more, more]
  )
  found = with_it.read(PLACES, 0, PLACES).features
  before = [BEGIN] * more
  for name, expected in without.read(PLACES, 0, PLACES).features.items():
    behind = [7] if name == "inputs" else []
    for row, rest in zip(found[name].rows(), expected.rows(), strict=True):
      np.testing.assert_array_equal(row, [*before, *rest, *behind])


def test_batches_of_an_evaluation(make_task, short_examples):
  examples = short_examples(6)
  task = make_task("evaluated", examples)
  split = EvaluationSplit(
    task, "train", {"inputs": 8, "targets": 4}, 2, converter=BEGUN
  )
  read = {}
  for batch in split:
    tokens = batch.arrays["decoder_target_tokens"]
    assert (batch.inputs[:, 0] == BEGIN).all()
    assert (tokens[:, 0] == BEGIN).all()
    fed = batch.arrays["decoder_input_tokens"]
    assert (fed[:, 0] == 2).all() and (fed[:, 1] == BEGIN).all()
    for place, row in zip(batch.places, batch.inputs, strict=True):
      read[int(place)] = row
  for place, example in enumerate(examples):
    expected = [BEGIN, *converters.trim(example["inputs"], 7, True, 1)]
    np.testing.assert_array_equal(read[place][: len(expected)], expected)
  cut = sum(len(example["inputs"]) > 7 for example in examples)
  assert split.truncated["inputs"] == cut > 0
