"""UniLM that writes: steps with a cache are rows that are read anew."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from tests import tiny_models
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError

CLS, SEP, MASK, EOS = 2, 3, 4, 3
PROMPTS = np.array([[2, 7, 9, 11, 13, 3], [2, 30, 31, 3, 0, 0]], np.int32)
MADE = 5
WIDTH = PROMPTS.shape[1] + MADE + 1


def build(**macros):
  model, _ = tiny_models.build("unilm", bindings=("UniLM.mask_id=4",), **macros)
  return model, tiny_models.random_parameters(
    tiny_models.build("unilm", bindings=("UniLM.mask_id=4",))[0]
  )


@functools.cache
def _reader():
  model, params = build()

  @jax.jit
  def at(tokens_1L, types_1L, place):
    batch = {
      "encoder_input_tokens": tokens_1L,
      "encoder_token_types": types_1L,
      "attention_kind": jnp.array([1]),
    }
    hidden = model.apply({"params": params}, batch, method="hidden")
    logits = model.apply({"params": params}, hidden, method="logits")
    return jax.nn.log_softmax(logits[0, place])

  return at


def next_likelihoods(prompt, written):
  """Of the next token, by a whole row with a mask at its end."""
  prompt = prompt[prompt != 0]
  tokens = np.concatenate([prompt, written, [MASK]]).astype(np.int32)
  types = np.repeat([4, 5], [len(prompt), len(written) + 1])
  # Rows of one width are compiled once.
  tokens, types = (np.pad(x, (0, WIDTH - len(x))) for x in (tokens, types))
  row = tokens[None], types[None].astype(np.int32)
  return np.asarray(_reader()(*row, len(prompt) + len(written)))


@pytest.mark.slow
@pytest.mark.parametrize(
  "scan", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_greedy_tokens_are_those_of_rows_read_anew(scan):
  model, params = build(SCAN_LAYERS=scan)
  if scan:
    params = tiny_models.stack_layers(params)
  found = programs.run(
    generate,
    model,
    params,
    PROMPTS,
    MADE,
    options=DecodingOptions(end_ids=()),
    eos_id=-1,
    start_id=0,
  )
  found = jax.device_get(found)
  for row, prompt in enumerate(PROMPTS):
    written, total = [], 0.0
    for _ in range(MADE):
      likelihoods = next_likelihoods(prompt, written)
      written.append(int(likelihoods.argmax()))
      total += likelihoods[written[-1]]
    np.testing.assert_array_equal(found.tokens[row, 0], written)
    np.testing.assert_allclose(found.log_likelihoods[row, 0], total, rtol=1e-4)


@pytest.mark.slow
def test_beams_have_the_likelihoods_of_their_rows():
  """Beams read the slots of the beams that they continue."""
  model, params = build()
  found = programs.run(
    generate,
    model,
    params,
    PROMPTS,
    MADE,
    options=DecodingOptions(num_beams=3, num_return=3, end_ids=()),
    eos_id=-1,
    start_id=0,
  )
  found = jax.device_get(found)
  for row, prompt in enumerate(PROMPTS):
    for beam in range(3):
      written, total = [], 0.0
      for token in np.asarray(found.tokens[row, beam]):
        total += next_likelihoods(prompt, written)[token]
        written.append(token)
      np.testing.assert_allclose(
        found.log_likelihoods[row, beam], total, rtol=1e-4
      )
  likelihoods = np.asarray(found.log_likelihoods)
  assert (np.diff(likelihoods, axis=1) <= 0).all()


def test_positions_for_too_few_tokens():
  model, params = build(MAX_POSITIONS=8)
  with pytest.raises(UserError, match="LearnedPositions.num_positions is 8"):
    generate(model, params, PROMPTS, MADE)
