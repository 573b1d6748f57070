"""Decoder-only generation against teacher forcing; what a prompt changes."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_models
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.runs.answers import scoring

EOS = 1
LENGTH = 8
PROMPTS = [
  np.random.RandomState(n).randint(3, 48, n).astype(np.int32)
  for n in (7, 0, 3, 1, 6)
]
PADDED = Ragged.of(PROMPTS).padded(7, 0)[0]
GREEDY = DecodingOptions()
BEAMS = DecodingOptions(num_beams=3, num_return=3)
SAMPLES = DecodingOptions(temperature=1.0, num_return=2)
BARE = DecodingOptions(start_before_prompt=False)
UNTIED = "softmax/untied.gin"
SCANNED = {"SCAN_LAYERS": True, "NUM_DECODER_LAYERS": 2}
# The second layer of each pair sees three tokens back.
BANDED = {"Windows.sizes": (None, 3), "NUM_DECODER_LAYERS": 2}


@functools.cache
def setting(architecture, *parts, **macros):
  """A model that ends some of what it makes."""
  macros = {"NUM_DECODER_LAYERS": 1, **macros}
  layers = {"NUM_DECODER_LAYERS": macros["NUM_DECODER_LAYERS"]}
  model, _ = tiny_models.build(architecture, *parts, **layers)
  params = tiny_models.random_parameters(model)
  model, _ = tiny_models.build(architecture, *parts, **macros)
  if macros.get("SCAN_LAYERS"):
    params = tiny_models.stack_layers(params)
  return model, params


@functools.cache
def example_sums(model, options):
  return scoring.make_example_sums(model, options)


@functools.partial(jax.jit, static_argnames=("model", "options"))
def made(model, params, options, prompts=PADDED, **keywords):
  return generate(model, params, prompts, LENGTH, options=options, **keywords)


def up_to_the_end(ids):
  ids = ids.tolist()
  return ids[: ids.index(EOS) + 1] if EOS in ids else ids


def teacher_forced(model, params, targets, options):
  """Log-likelihoods of the targets, and whether each token is the likeliest."""
  batch = converters.PrefixLanguageModel()(
    {"inputs": Ragged.of(PROMPTS), "targets": Ragged.of(targets)},
    np.arange(len(PROMPTS)),
    num_rows=len(PROMPTS),
    lengths={"inputs": 7, "targets": LENGTH},
    packing=False,
    pad_id=0,
  )
  sums = jax.device_get(example_sums(model, options)(params, batch))
  return -sums["loss_sum"], sums["correct_sum"] == sums["weight_sum"]


# ELMo's LSTM, whose state is as wide as the stack.
PROJECTED = {
  "bindings": (
    "LstmLayer.projected=True", "LstmLayer.clip=0.5", "LstmLayer.residual=True",
  ),
}  # fmt: skip


def by_a_slow_test(*case):
  """Of a way of positions, of state or of search that other cases have."""
  return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(
  ("architecture", "parts", "macros", "options"),
  [
    ("prefix_lm", (), SCANNED, SAMPLES),
    ("gpt_3", (), {**BANDED, **SCANNED}, BEAMS),
    ("lm", (tiny_models.LSTM,), SCANNED, BEAMS),
    ("lm", ("attention/primer.gin",), SCANNED, BEAMS),
    by_a_slow_test("llama", (), {}, GREEDY),
    by_a_slow_test("lm", ("positions/alibi.gin",), {}, BARE),
    by_a_slow_test("prefix_lm", ("positions/shaw.gin",), {}, BEAMS),
    by_a_slow_test("gpt_2", (), SCANNED, BARE),
    by_a_slow_test("gpt_3", (), BANDED, GREEDY),
    by_a_slow_test("lm", (tiny_models.LSTM,), PROJECTED, BARE),
    by_a_slow_test("lm", ("positions/sinusoidal.gin",), {}, GREEDY),
    *(
      by_a_slow_test("prefix_lm", (part,), {}, BEAMS)
      for part in (*tiny_models.PARTS, *tiny_models.LAYERS)
      if part.startswith(("attention/", "layers/"))
    ),
    # Untied, a model does not go on writing padding after an empty prompt.
    by_a_slow_test("lm", ("feed_forward/switch.gin", UNTIED), SCANNED, GREEDY),
    by_a_slow_test(
      "prefix_lm", ("feed_forward/mixture_of_experts.gin", UNTIED), {}, GREEDY
    ),
    by_a_slow_test(
      "prefix_lm", ("positions/t5_buckets_per_layer.gin",), {}, GREEDY
    ),
  ],
)
def test_equals_teacher_forcing(architecture, parts, macros, options):
  """Prompts of different lengths, one of them empty, in one batch."""
  model, params = setting(architecture, *parts, **macros)
  outputs = jax.device_get(made(model, params, options))
  for output in range(outputs.tokens.shape[1]):
    targets = [
      np.array(up_to_the_end(row)) for row in outputs.tokens[:, output]
    ]
    found, likeliest = teacher_forced(model, params, targets, options)
    rows = np.arange(len(PROMPTS))
    if not options.start_before_prompt:
      rows = rows[[len(prompt) > 0 for prompt in PROMPTS]]
    np.testing.assert_allclose(
      found[rows],
      outputs.log_likelihoods[rows, output],
      rtol=1e-5,
      atol=1e-5,
    )
    if options is GREEDY or options is BARE:
      assert likeliest[rows].all()


@pytest.mark.slow
def test_a_row_does_not_depend_on_the_others():
  model, params = setting("gpt_2")
  together = jax.device_get(made(model, params, GREEDY))
  for other in (PADDED[[0, 2, 2, 0, 2]], PADDED[[4, 1, 1, 3, 4]]):
    found = jax.device_get(made(model, params, GREEDY, other))
    same = (other == PADDED).all(axis=1)
    assert 1 < same.sum() < len(same)
    np.testing.assert_array_equal(found.tokens[same], together.tokens[same])
    np.testing.assert_allclose(found.scores[same], together.scores[same], 1e-5)


@pytest.mark.slow
def test_prompts_that_end_in_padding_are_told_by_their_lengths():
  """As those in a vocabulary whose padding is its EOS."""
  model, params = setting("gpt_2")
  prompts = PADDED.copy()
  lengths = np.array([7, 2, 4, 1, 7], np.int32)
  told = made(model, params, GREEDY, prompts, lengths_B=lengths)
  untold = made(model, params, GREEDY, prompts)
  same = np.isclose(told.scores, untold.scores)[:, 0]
  np.testing.assert_array_equal(same, [True, False, False, True, False])
  # Row 2 with one more padding is the prompt (..., 0).
  batch = np.append(PROMPTS[2], 0)[None]
  alone = made(model, params, GREEDY, batch, lengths_B=np.array([4]))
  np.testing.assert_array_equal(alone.tokens[0], told.tokens[2])


@pytest.mark.slow
def test_a_prefix_goes_on_like_a_longer_prompt_after_that_of_all():
  model, params = setting("gpt_2")
  options = dataclasses.replace(GREEDY, forced_prefix=(11,))
  forced = np.array([[5, 6], [-1, -1], [9, -1], [8, 3], [4, 4]], np.int32)
  found = np.asarray(made(model, params, options, forced_BF=forced).tokens)
  prefixes = [[11, *ids[ids >= 0].tolist()] for ids in forced]
  longer = Ragged.of(
    [np.append(*both) for both in zip(PROMPTS, prefixes, strict=True)]
  )
  longer, _ = longer.padded(10, 0)
  expected = np.asarray(made(model, params, GREEDY, longer).tokens)
  for row, prefix in enumerate(prefixes):
    assert found[row, 0, : len(prefix)].tolist() == prefix
    rest = found[row, 0, len(prefix) :]
    np.testing.assert_array_equal(rest, expected[row, 0, : len(rest)])


@pytest.mark.slow
def test_an_ngram_of_the_prompt_does_not_come_again():
  model, params = setting("llama")
  free = np.asarray(made(model, params, GREEDY).tokens)[:, 0]
  prompts = np.concatenate([free, PADDED], axis=1)
  held = dataclasses.replace(GREEDY, no_repeat_ngram_size=1)
  found = np.asarray(made(model, params, held, prompts).tokens)[:, 0]
  for prompt, row in zip(prompts, found, strict=True):
    real = prompt[: np.flatnonzero(prompt)[-1] + 1]
    ids = up_to_the_end(row)
    assert not set(ids) & set(real.tolist())
    assert len(set(ids)) == len(ids)


def test_the_cache_holds_a_prompt_once_for_all_outputs():
  model, params = setting("gpt_2")
  text = (
    jax.jit(functools.partial(generate, model, max_length=5, options=BEAMS))
    .lower(params, PADDED)
    .as_text()
  )
  # [rows, heads, head size, 7 of the prompt and 3 of each of 5 positions]
  assert "tensor<5x4x8x22xf32>" in text
  # Nothing has the prompt's keys three times.
  assert "tensor<15x4x8" not in text


def test_an_encoder_decoder_needs_a_start():
  model, _ = tiny_models.build("t5_1_1")
  with pytest.raises(UserError) as error:
    jax.eval_shape(
      functools.partial(generate, model, max_length=5, options=BARE),
      tiny_models.random_parameters(model),
      jnp.asarray(PADDED),
    )
  assert str(error.value) == (
    "start_before_prompt=False: the decoder of an encoder-decoder has to be "
    "fed a start token; leave the option out"
  )


def test_more_tokens_than_learned_positions_are_refused_before_compiling():
  model, params = setting("gpt_2", MAX_POSITIONS=14)
  with pytest.raises(UserError) as error:
    jax.eval_shape(
      functools.partial(generate, model, max_length=8), params, PADDED
    )
  assert str(error.value) == (
    "a prompt of 7 tokens and 8 that are made need 15 positions, but "
    "LearnedPositions.num_positions is 14; shorten the inputs or "
    "DecodingOptions.max_length"
  )


def test_a_prefix_longer_than_the_largest_length_is_refused():
  with pytest.raises(UserError) as error:
    DecodingOptions(max_length=4, forced_prefix=(5, 6)).check_prefix(3)
  assert str(error.value) == (
    "an output is to begin with 5 ids, more than the largest length, 4; "
    "shorten its prefix or raise max_length"
  )


def test_a_text_that_is_continued_has_no_end():
  sequences = [[5, 6, EOS], [EOS], [], [7, EOS, 8]]
  found = converters.without_end(
    Ragged.of([np.array(ids, np.int32) for ids in sequences]), EOS
  )
  assert [ids.tolist() for ids in found.rows()] == [[5, 6], [], [], [7, EOS, 8]]


def test_a_text_to_continue_may_be_as_long_as_targets():
  lengths = {"inputs": 1, "targets": 9}
  continued = converters.with_room(converters.LanguageModel(), lengths)
  assert continued == {"inputs": 9, "targets": 9}
  assert converters.with_room(converters.LanguageModel(), {"targets": 9}) == (
    continued
  )
  for converter in (
    converters.PrefixLanguageModel(),
    converters.EncoderDecoder(),
  ):
    assert converters.with_room(converter, lengths) == lengths
