"""Our architectures as modules of T5X's models, beside T5X's own networks."""

import functools

import flax
from flax import traverse_util
import jax
import numpy as np
import pytest

from tests import tiny_models
from tests import tiny_t5
from tests.oracles.t5x import t5x_package

t5x_package.require()

import seqio  # noqa: E402
from t5x import adafactor  # noqa: E402
from t5x import decoding  # noqa: E402
from t5x import models  # noqa: E402
from t5x.examples.decoder_only import network as decoder_only  # noqa: E402
from t5x.examples.t5 import network as encoder_decoder  # noqa: E402

from transformer_zoo.interop.t5x import bridge  # noqa: E402

LOSS_TOLERANCE = 1e-6
GRADIENT_TOLERANCE = 1e-4
GREEDY = functools.partial(decoding.temperature_sample, temperature=0.0)
# T5X's cache of its decoder-only biases; ours makes one row at each step.
ONLY_THEIRS = {"decoder/relpos_bias/cached_bias"}


@pytest.fixture(autouse=True)
def promotion_of_ranks():
  """T5X relies on it; our own tests forbid it."""
  with jax.numpy_rank_promotion("allow"):
    yield


def flat(tree):
  return traverse_util.flatten_dict(flax.core.unfreeze(tree), sep="/")


def numbers_like(tree):
  """Random parameters of the right sizes, a function of their order."""
  random = np.random.RandomState(0)

  def draw(leaf):
    scale = leaf.shape[0] ** -0.5 if len(leaf.shape) == 2 else 1.0
    normal = random.standard_normal(leaf.shape)
    return (scale * normal).astype(np.float32)

  return jax.tree.map(draw, flax.core.unfreeze(tree))


def vocabulary(size):
  return seqio.PassThroughVocabulary(size, eos_id=1)


@functools.cache
def encoder_decoders(architecture, **macros):
  """(ours, T5X's) models of an encoder-decoder, and parameters of T5X's."""
  tiny = tiny_t5.TINY
  network = encoder_decoder.Transformer(
    encoder_decoder.T5Config(
      vocab_size=tiny["VOCAB_SIZE"],
      emb_dim=tiny["EMBED_DIM"],
      num_heads=tiny["NUM_HEADS"],
      num_encoder_layers=tiny["NUM_ENCODER_LAYERS"],
      num_decoder_layers=tiny["NUM_DECODER_LAYERS"],
      head_dim=tiny["HEAD_DIM"],
      mlp_dim=tiny["MLP_DIM"],
      mlp_activations=("gelu", "linear")
      if architecture == "t5_1_1"
      else ("relu",),
      logits_via_embedding=architecture == "t5_1_0",
    )
  )
  ours = bridge.T5XEncoderDecoder(tiny_t5.build(architecture, **macros))
  words = vocabulary(tiny["VOCAB_SIZE"])
  both = [
    models.EncoderDecoderModel(module, words, words, adafactor.Adafactor())
    for module in (ours, network)
  ]
  shapes = {key: value.shape for key, value in tiny_t5.random_batch().items()}
  variables = [
    jax.eval_shape(
      functools.partial(model.get_initial_variables, input_shapes=shapes),
      jax.random.key(0),
    )
    for model in both
  ]
  return both, variables, numbers_like(variables[1]["params"])


@functools.cache
def decoder_onlys(*, bidirectional):
  """The same of a language model, causal or with a prefix."""
  tiny = tiny_models.TINY
  network = decoder_only.DecoderWrapper(
    decoder_only.TransformerConfig(
      vocab_size=tiny["VOCAB_SIZE"],
      emb_dim=tiny["EMBED_DIM"],
      num_heads=tiny["NUM_HEADS"],
      num_layers=tiny["NUM_DECODER_LAYERS"],
      head_dim=tiny["HEAD_DIM"],
      mlp_dim=tiny["MLP_DIM"],
      logits_via_embedding=True,
    )
  )
  # Its biases have one direction, with a prefix too (docs/guides/t5x.md).
  model, _ = (
    tiny_models.build(
      "prefix_lm",
      bindings=("decoder/RelativePositionBias.bidirectional=False",),
    )
    if bidirectional
    else tiny_models.build("lm")
  )
  ours = bridge.T5XDecoderOnly(model)
  both = [
    models.DecoderOnlyModel(
      module,
      vocabulary(tiny["VOCAB_SIZE"]),
      adafactor.Adafactor(),
      inputs_bidirectional_attention=bidirectional,
    )
    for module in (ours, network)
  ]
  shapes = {key: value.shape for key, value in language_batch().items()}
  variables = [
    jax.eval_shape(
      functools.partial(model.get_initial_variables, input_shapes=shapes),
      jax.random.key(0),
    )
    for model in both
  ]
  return both, variables, numbers_like(variables[1]["params"])


def packed_batch():
  """Two examples in each row."""
  batch = tiny_t5.random_batch(rows=4)
  packed = {}
  for key, value in batch.items():
    packed[key] = np.concatenate([value[:2], value[2:]], axis=1)
    side, _, feature = key.partition("_")
    if feature in ("input_tokens", "target_tokens"):
      length = value.shape[1]
      ids = np.repeat([[1, 2]], length, axis=1).repeat(2, axis=0)
      packed[f"{side}_positions"] = np.tile(np.arange(length), (2, 2))
      packed[f"{side}_segment_ids"] = np.sort(ids, axis=1)
  return packed


def language_batch(prompts=(4, 6, 3)):
  """SeqIO's decoder-only features of inputs and targets of several lengths."""
  random = np.random.RandomState(0)
  places = np.arange(12)
  inputs, whole = np.array(prompts)[:, None], np.array([[12], [9], [7]])
  tokens = random.randint(3, tiny_models.TINY["VOCAB_SIZE"], (3, 12))
  targets = np.where(places < whole - 1, tokens, places == whole - 1)
  targets = targets.astype(np.int32)
  weights = (places >= inputs) & (targets > 0)
  return {
    "decoder_target_tokens": targets,
    "decoder_input_tokens": tiny_t5.shift_right(targets),
    "decoder_loss_weights": weights.astype(np.int32),
    "decoder_causal_attention": (places <= inputs).astype(np.int32),
  }


def packed_language_batch():
  """Two examples in each row, of a prefix and what follows it."""
  batch = {
    key: np.concatenate([value, value[::-1]], axis=1)
    for key, value in language_batch().items()
  }
  is_token = batch["decoder_target_tokens"] > 0
  examples, places = np.divmod(np.arange(is_token.shape[1]), 12)
  batch["decoder_segment_ids"] = is_token * (1 + examples).astype(np.int32)
  batch["decoder_positions"] = is_token * places.astype(np.int32)
  return batch


def assert_same_variables(ours, theirs):
  """Names and shapes of parameters, and the names of their axes."""
  assert ours.keys() == theirs.keys()
  params, axes = (flat(ours[key]) for key in ("params", "params_axes"))
  their_params, their_axes = (
    flat(theirs[key]) for key in ("params", "params_axes")
  )
  assert {k: v.shape for k, v in params.items()} == {
    k: v.shape for k, v in their_params.items()
  }
  assert {k: tuple(v.names) for k, v in axes.items()} == {
    k: tuple(v.names) for k, v in their_axes.items()
  }


def assert_same_loss(both, params, batch, report):
  results = []
  for model in both:
    of_params = functools.partial(model.loss_fn, batch=batch, dropout_rng=None)
    gradient = jax.jit(jax.value_and_grad(of_params, has_aux=True))
    (loss, _), gradients = gradient(params)
    results.append((loss, flat(gradients)))
  (loss, gradients), (expected, their_gradients) = results
  assert abs(loss - expected) <= LOSS_TOLERANCE * abs(expected)
  largest = max(
    tiny_t5.largest_difference(gradients[name], their_gradients[name])
    for name in their_gradients
  )
  report("gradients beside T5X", largest)
  assert largest < GRADIENT_TOLERANCE


def predictions(model, params, batch, decode_fn, num_decodes):
  """All decodes and their scores."""
  model._decode_fn = decode_fn
  predict = functools.partial(
    model.predict_batch_with_aux,
    num_decodes=num_decodes,
    return_all_decodes=True,
  )
  decodes, auxiliary = jax.jit(predict)(params, batch, rng=jax.random.key(5))
  return np.asarray(decodes), np.asarray(auxiliary["scores"])


def assert_same_predictions(both, params, batch, decode_fn, num_decodes):
  (ours, scores), (theirs, their_scores) = (
    predictions(model, params, batch, decode_fn, num_decodes) for model in both
  )
  np.testing.assert_array_equal(ours, theirs)
  np.testing.assert_allclose(scores, their_scores, rtol=1e-4)
  assert len(np.unique(ours[:, -1], axis=0)) > 1  # The inputs are heard.


def assert_same_scores(both, params, batch):
  ours, theirs = (jax.jit(model.score_batch)(params, batch) for model in both)
  np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("architecture", tiny_t5.ARCHITECTURES)
class TestEncoderDecoder:
  def test_variables(self, architecture):
    _, variables, _ = encoder_decoders(architecture)
    assert_same_variables(*variables)

  @pytest.mark.parametrize(
    "batch", [tiny_t5.random_batch, packed_batch], ids=["padded", "packed"]
  )
  def test_loss_and_gradients(self, architecture, batch, report):
    both, _, params = encoder_decoders(architecture)
    assert_same_loss(both, params, batch(), report)

  def test_caches(self, architecture):
    both, _, params = encoder_decoders(architecture)
    batch = tiny_t5.random_batch()
    ours, theirs = (
      flat(
        jax.eval_shape(
          lambda model=model: model._compute_kv_cache(
            params,
            encoded_inputs=None,
            encoder_input_tokens=batch["encoder_input_tokens"],
            decoder_input_tokens=batch["decoder_input_tokens"],
          )[0]
        )
      )
      for model in both
    )
    assert {k: (v.shape, v.dtype) for k, v in ours.items()} == {
      k: (v.shape, v.dtype) for k, v in theirs.items()
    }

  @pytest.mark.parametrize(
    ("decode_fn", "num_decodes"),
    [
      (decoding.beam_search, 1),
      (decoding.beam_search, 4),
      (GREEDY, 1),
      (decoding.temperature_sample, 3),
    ],
    ids=["greedy beam", "beams", "greedy", "samples"],
  )
  def test_predictions(self, architecture, decode_fn, num_decodes):
    both, _, params = encoder_decoders(architecture)
    batch = tiny_t5.random_batch(targets=10)
    assert_same_predictions(both, params, batch, decode_fn, num_decodes)

  def test_scores(self, architecture):
    both, _, params = encoder_decoders(architecture)
    assert_same_scores(both, params, tiny_t5.random_batch())


def test_the_loss_of_our_gin_files_for_t5x_is_ours():
  """So the moments of Adafactor have the scale of both programs."""
  (bridged, _), _, params = encoder_decoders("t5_1_1")
  words = vocabulary(tiny_t5.TINY["VOCAB_SIZE"])
  files = tiny_models.GIN / "t5x"
  (factor,) = {
    line.partition(" = ")[2].partition("#")[0].strip().strip("'")
    for name in ("encoder_decoder.gin", "decoder_only.gin")
    for line in (files / name).read_text().splitlines()
    if line.startswith("LOSS_NORMALIZING_FACTOR")
  }
  model = models.EncoderDecoderModel(
    bridged.module,
    words,
    words,
    adafactor.Adafactor(),
    loss_normalizing_factor=factor,
    z_loss=1e-4,
    label_smoothing=0.0,
  )
  batch = tiny_t5.random_batch()
  loss, _ = model.loss_fn(params, batch, dropout_rng=None)
  expected, _ = tiny_t5.loss_and_sums(
    bridged.module.model, params, batch, z_loss=1e-4
  )
  assert abs(loss - expected) <= LOSS_TOLERANCE * abs(expected)


def test_scanned_layers_decode_like_looped_ones():
  """Their caches have a leading axis, which T5X is told of."""
  (looped, _), _, params = encoder_decoders("t5_1_1")
  (scanned, _), _, _ = encoder_decoders("t5_1_1", SCAN_LAYERS=True)
  batch = tiny_t5.random_batch(targets=10)
  expected = predictions(looped, params, batch, decoding.beam_search, 4)
  stacked = tiny_t5.stack_layers(params)
  found = predictions(scanned, stacked, batch, decoding.beam_search, 4)
  np.testing.assert_array_equal(found[0], expected[0])
  np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)


@pytest.mark.parametrize("bidirectional", [False, True])
class TestDecoderOnly:
  def test_variables(self, bidirectional):
    _, variables, _ = decoder_onlys(bidirectional=bidirectional)
    assert_same_variables(*variables)

  @pytest.mark.parametrize(
    "batch", [language_batch, packed_language_batch], ids=["padded", "packed"]
  )
  def test_loss_and_gradients(self, bidirectional, batch, report):
    both, _, params = decoder_onlys(bidirectional=bidirectional)
    assert_same_loss(both, params, batch(), report)

  def test_caches_after_the_prompt(self, bidirectional):
    both, _, params = decoder_onlys(bidirectional=bidirectional)
    batch = language_batch()
    attention = batch["decoder_causal_attention"]
    prompt = batch["decoder_input_tokens"] * attention
    ours, theirs = (
      flat(jax.jit(model._compute_kv_cache)(params, prompt, attention)[0])
      for model in both
    )
    assert theirs.keys() - ours.keys() == ONLY_THEIRS
    for name, value in ours.items():
      assert value.dtype == theirs[name].dtype
      np.testing.assert_allclose(value, theirs[name], atol=2e-5, err_msg=name)

  @pytest.mark.parametrize(
    ("decode_fn", "num_decodes"),
    [(GREEDY, 1), (decoding.temperature_sample, 3)],
    ids=["greedy", "samples"],
  )
  def test_predictions(self, bidirectional, decode_fn, num_decodes):
    both, _, params = decoder_onlys(bidirectional=bidirectional)
    assert_same_predictions(
      both, params, language_batch(), decode_fn, num_decodes
    )

  def test_beams(self, bidirectional):
    """Of prompts of one length; with others T5X goes on in full rows."""
    both, _, params = decoder_onlys(bidirectional=bidirectional)
    batch = language_batch(prompts=(4, 4, 4))
    assert_same_predictions(both, params, batch, decoding.beam_search, 3)

  def test_scores(self, bidirectional):
    both, _, params = decoder_onlys(bidirectional=bidirectional)
    assert_same_scores(both, params, language_batch())
