"""Rows with prompts are the rows without, and a prompt before each example."""

import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import prompts
from transformer_zoo.errors import UserError

P = 3
IDS = prompts.FIRST_ID + np.arange(P)
KINDS = {
  "encoder": converters.EncoderDecoder(),
  "prefix": converters.PrefixLanguageModel(),
  "language": converters.LanguageModel(),
}


def rows(converter, packing, width=40):
  examples = tiny_models.random_examples()
  number = len(examples["inputs"].lengths)
  return converter(
    {name: examples[name] for name in converter.features},
    np.zeros(number, int) if packing else np.arange(number),
    num_rows=1 if packing else number,
    lengths={"inputs": width, "targets": width},
    packing=packing,
    pad_id=0,
  )


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_and_predicted_is_the_same(kind, packing):
  of = KINDS[kind]
  before = rows(of, packing)
  after = rows(prompts.prompted(of, P), packing)
  number = len(tiny_models.random_examples()["inputs"].lengths)
  side = "encoder" if kind == "encoder" else "decoder"
  read = after[f"{side}_input_tokens"]
  assert (read >= prompts.FIRST_ID).sum() == P * number
  if kind == "encoder":
    places = np.flatnonzero(read.ravel() == prompts.FIRST_ID)
    for place in places:
      np.testing.assert_array_equal(read.ravel()[place : place + P], IDS)
    tokens = read[(read > 0) & (read < prompts.FIRST_ID)]
    old = before["encoder_input_tokens"]
    np.testing.assert_array_equal(tokens, old[old > 0])
  else:
    weighted = [
      batch["decoder_target_tokens"][batch["decoder_loss_weights"] > 0]
      for batch in (before, after)
    ]
    np.testing.assert_array_equal(*weighted)
  shapes = prompts.prompted(of, P).shapes(
    {"inputs": 40, "targets": 40}, len(read), packing
  )
  assert {name: array.shape for name, array in after.items()} == shapes


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_of_packed_rows_counts_prompts(kind):
  of = KINDS[kind]
  lengths = np.full((2, len(of.features)), 5)
  more = prompts.prompted(of, P).sizes(lengths) - of.sizes(lengths)
  expected = np.zeros_like(of.sizes(lengths))
  expected[:, 0] = P
  np.testing.assert_array_equal(more, expected)
  whole = {"inputs": 40, "targets": 30}
  room = prompts.prompted(of, P).capacities(whole)
  assert room == (of.capacities(whole)[0] + P, *of.capacities(whole)[1:])


def test_a_prompted_language_model_continues_prompted_inputs():
  converter = prompts.prompted(converters.LanguageModel(bos_id=7), P)
  found = converters.with_inputs(converter)
  assert found == prompts.PrefixLanguageModel(bos_id=7, prompt_length=P)


def test_the_ends_of_an_answer_move_with_the_text():
  converter = prompts.prompted(converters.Encoder(form="spans"), P)
  batch = converter(
    {
      "inputs": Ragged.of([np.arange(2, 8)]),
      "targets": Ragged.of([np.zeros(6, int)]),
      "weights": Ragged.of([np.array([0, 1, 0, 0, 0, 0])]),
      "answer_starts": Ragged.of([np.array([1])]),
      "answer_ends": Ragged.of([np.array([2])]),
    },
    np.zeros(1, int),
    num_rows=1,
    lengths={"inputs": 8},
    packing=False,
    pad_id=0,
  )
  start, end = batch["answer_starts"][0], batch["answer_ends"][0]
  np.testing.assert_array_equal(
    batch["encoder_input_tokens"][0, start : end + 1], [3, 4]
  )
  assert batch["encoder_loss_weights"][0, start] == 1


@pytest.mark.parametrize("form", ["classes", "number"])
@pytest.mark.parametrize("packing", [False, True])
def test_a_class_is_read_at_the_prompt_where_peft_reads_it(packing, form):
  lengths = [6, 4]
  examples = {
    "inputs": Ragged.of([np.arange(2, 2 + n) for n in lengths]),
    "targets": Ragged.of([np.eye(1, n, dtype=int)[0] * 5 for n in lengths]),
    "weights": Ragged.of([np.eye(1, n, dtype=int)[0] for n in lengths]),
  }
  found = {}
  for at_prompt in (False, True):
    of = converters.Encoder(form=form)
    converter = prompts.prompted(of, P, answers_at_prompt=at_prompt)
    found[at_prompt] = converter(
      examples,
      np.zeros(2, int) if packing else np.arange(2),
      num_rows=1 if packing else 2,
      lengths={"inputs": 16},
      packing=packing,
      pad_id=0,
    )
  at_text, at_prompt = found[False], found[True]
  read = at_text["encoder_input_tokens"]
  np.testing.assert_array_equal(at_prompt["encoder_input_tokens"], read)
  for batch, token in ((at_text, 2), (at_prompt, IDS[0])):
    weights = batch["encoder_loss_weights"]
    assert (read[weights > 0] == token).all() and weights.sum() == 2
    targets = batch["encoder_target_tokens"]
    assert (targets[weights > 0] == 5).all() and targets.sum() == 10


def test_the_last_token_answers_at_no_prompt():
  of = converters.Encoder(form="classes", answering="last")
  with pytest.raises(UserError, match="but the last token of a text answers"):
    prompts.prompted(of, P, answers_at_prompt=True)
