"""T5X's demands of a module, made without T5X (with it: tests/oracles)."""

import functools

from flax import traverse_util
from flax.linen import partitioning
import gin
from gin import selector_map
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny_models
from tests import tiny_t5
from transformer_zoo.errors import UserError
from transformer_zoo.interop.t5x import bridge

TOLERANCE = 2e-5


def flat(tree):
  return traverse_util.flatten_dict(tree, sep="/")


def with_parameters(module, *tokens):
  """The module's parameters, random, by T5X's names."""
  shapes = jax.eval_shape(
    functools.partial(module.init, enable_dropout=False),
    jax.random.key(0),
    # T5X initializes with floats.
    *(jnp.ones(t.shape, jnp.float32) for t in tokens),
  )
  random = np.random.RandomState(0)
  return jax.tree.map(
    lambda leaf: 0.2 * random.standard_normal(leaf.shape).astype(np.float32),
    shapes["params"],
  )


@functools.cache
def encoder_decoder(architecture):
  """(module, variables, batch) of an encoder-decoder of one layer each."""
  model, _ = tiny_models.build(
    architecture,
    NUM_ENCODER_LAYERS=1,
    NUM_DECODER_LAYERS=1,
    DROPOUT_RATE=0.5,
  )
  module = bridge.T5XEncoderDecoder(model)
  batch = tiny_t5.random_batch(vocab_size=48)
  tokens = [
    batch[f"{name}_tokens"]
    for name in ("encoder_input", "decoder_input", "decoder_target")
  ]
  return module, {"params": with_parameters(module, *tokens)}, tokens


@pytest.mark.parametrize(
  ("architecture", "parameter", "names"),
  [
    ("t5_1_1", "encoder/layers_0/mlp/wi_0/kernel", ("embed", "mlp")),
    ("t5_1_1", "token_embedder/embedding", ("vocab", "embed")),
    (
      "umt5",
      "decoder/layers_0/relpos_bias/rel_embedding",
      ("heads", "relpos_buckets"),
    ),
  ],
)
def test_parameters_have_t5xs_names_and_axes_beside_them(
  architecture, parameter, names
):
  module, _, tokens = encoder_decoder(architecture)
  variables = jax.eval_shape(
    functools.partial(module.init, enable_dropout=False),
    jax.random.key(0),
    *tokens,
  )
  axes = flat(partitioning.get_axis_names(variables["params_axes"]).unfreeze())
  params = flat(variables["params"])
  assert axes.keys() == params.keys()
  assert all(len(axes[name]) == params[name].ndim for name in params)
  assert tuple(axes[parameter]) == names


@pytest.mark.slow
def test_initial_parameters_are_drawn_by_the_model():
  module, _, tokens = encoder_decoder("t5_1_1")
  draw = jax.jit(functools.partial(module.init, enable_dropout=False))
  params = flat(draw(jax.random.key(0), *tokens)["params"])
  assert (params["decoder/decoder_norm/scale"] == 1).all()
  assert 0.9 < params["token_embedder/embedding"].std() < 1.1


@pytest.mark.slow
def test_token_by_token_equals_teacher_forcing():
  """In a model whose keys are turned by their positions."""
  module, variables, (inputs, fed, targets) = encoder_decoder(
    "llama_encoder_decoder"
  )
  targets = np.maximum(targets, 2)  # No padding: every position is decoded.
  apply = functools.partial(module.apply, enable_dropout=False)
  expected = jax.jit(apply)(variables, inputs, fed, targets)
  encoded = apply(variables, inputs, method=module.encode)
  _, made = jax.jit(functools.partial(apply, decode=True, mutable=["cache"]))(
    variables, inputs, fed, targets
  )
  step = jax.jit(
    functools.partial(
      apply, decode=True, mutable=["cache"], method=module.decode
    )
  )
  for i in range(fed.shape[1]):
    token = fed[:, i : i + 1]
    logits, made = step({**variables, **made}, encoded, inputs, token, token)
    assert tiny_t5.largest_difference(logits[:, 0], expected[:, i]) < TOLERANCE
  assert set(flat(made["cache"])) == {
    f"decoder/layers_0/self_attention/{name}"
    for name in ("cached_key", "cached_value", "cache_index")
  }


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["prefix_lm", "gpt_2"])
def test_a_prompt_is_read_at_once_and_each_row_goes_on_at_its_end(architecture):
  model, _ = tiny_models.build(architecture, NUM_DECODER_LAYERS=1)
  module = bridge.T5XDecoderOnly(model)
  random = np.random.RandomState(0)
  tokens = random.randint(2, 48, (3, 9)).astype(np.int32)
  lengths = np.array([0, 2, 5])
  prefix = None
  if architecture == "prefix_lm":
    prefix = (np.arange(9) <= lengths[:, None]).astype(np.int32)
  variables = {"params": with_parameters(module, tokens, tokens)}
  apply = functools.partial(module.apply, enable_dropout=False)
  expected = apply(variables, tokens, tokens, decoder_causal_attention=prefix)
  _, made = apply(variables, tokens, tokens, decode=True, mutable=["cache"])
  _, made = apply(
    {**variables, **made},
    tokens,
    tokens,
    decoder_causal_attention=prefix,
    prefill=True,
    prefill_lengths=lengths,
    mutable=["cache"],
  )
  step = jax.jit(functools.partial(apply, decode=True, mutable=["cache"]))
  for i in range(4):
    places = (lengths + i)[:, None]
    token = np.take_along_axis(tokens, places, axis=1)
    logits, made = step({**variables, **made}, token, token)
    wanted = np.take_along_axis(expected, places[..., None], axis=1)
    assert tiny_t5.largest_difference(logits, wanted) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("scan", [False, True])
def test_beams_go_on_at_the_end_of_their_rows_prompt(scan):
  """T5X's beam search leaves the index [rows, beams]."""
  model, _ = tiny_models.build("lm", NUM_DECODER_LAYERS=1, SCAN_LAYERS=scan)
  module = bridge.T5XDecoderOnly(model)
  random = np.random.RandomState(0)
  tokens = random.randint(2, 48, (4, 9)).astype(np.int32)
  tokens[1::2, :5] = tokens[::2, :5]  # Two beams of each of two rows.
  lengths = np.array([2, 5])
  variables = {"params": with_parameters(module, tokens, tokens)}
  apply = functools.partial(module.apply, enable_dropout=False)
  expected = apply(variables, tokens, tokens)
  rows = tokens[::2]
  _, made = apply(variables, rows, rows, decode=True, mutable=["cache"])
  _, made = apply(
    {**variables, **made},
    rows,
    rows,
    prefill=True,
    prefill_lengths=lengths,
    mutable=["cache"],
  )
  axis = 1 if scan else 0
  cache = {
    name: np.stack([value, value], axis + 1)
    if name.endswith("cache_index")
    else np.repeat(value, 2, axis)
    for name, value in flat(made["cache"]).items()
  }
  made = {"cache": traverse_util.unflatten_dict(cache, sep="/")}
  step = jax.jit(functools.partial(apply, decode=True, mutable=["cache"]))
  for i in range(2):
    places = (np.repeat(lengths, 2) + i)[:, None]
    token = np.take_along_axis(tokens, places, axis=1)
    logits, made = step({**variables, **made}, token, token)
    wanted = np.take_along_axis(expected, places[..., None], axis=1)
    assert tiny_t5.largest_difference(logits, wanted) < TOLERANCE
  shapes = {n: v.shape for n, v in flat(made["cache"]).items()}
  assert shapes == {name: value.shape for name, value in cache.items()}


def test_more_tokens_than_positions_are_refused():
  model, _ = tiny_models.build("gpt_2", MAX_POSITIONS=8)
  module = bridge.T5XDecoderOnly(model)
  tokens = np.ones((1, 9), np.int32)
  variables = {"params": with_parameters(module, tokens[:, :8], tokens[:, :8])}
  with pytest.raises(UserError, match="num_positions is 8"):
    module.apply(
      variables, tokens, tokens, decode=True, mutable=["cache"],
      enable_dropout=False,
    )  # fmt: skip


@pytest.mark.slow
def test_dropout_is_drawn_where_it_is_enabled():
  module, variables, tokens = encoder_decoder("llama_encoder_decoder")
  apply = jax.jit(functools.partial(module.apply, enable_dropout=True))
  one, same, other = (
    apply(variables, *tokens, rngs={"dropout": jax.random.key(seed)})
    for seed in (0, 0, 1)
  )
  np.testing.assert_array_equal(one, same)
  assert not np.allclose(one, other)


def test_a_model_is_built_beside_what_another_program_has_configured(
  monkeypatch,
):
  """T5X has its own macros of the same names, and has locked them."""

  def someone_elses(heads):
    return heads

  # The other tests' commands must not find two configurables `train`, and must
  # find what is registered when something is first built.
  tiny_models.build("t5_1_1")
  mixed = selector_map.SelectorMap()
  for selector, configurable in gin.config._REGISTRY.items():
    mixed[selector] = configurable
  monkeypatch.setattr(gin.config, "_REGISTRY", mixed)
  registered = gin.external_configurable(
    someone_elses, "train", module="t5x.train"
  )
  gin.clear_config()
  gin.parse_config("t5x.train.train.heads = %NUM_HEADS\nNUM_HEADS = 7")
  gin.finalize()
  try:
    model = bridge.architecture(
      ["architectures/t5_1_1.gin", "sizes/tiny.gin"], ["NUM_HEADS=2"], 0.25
    )
    assert model.encoder.layer_stack.layer.attention.num_heads == 2
    assert model.encoder.layer_stack.layer.dropout.rate == 0.25
    with pytest.raises(UserError, match="NUM_HEDS"):
      bridge.architecture(
        ["architectures/t5_1_1.gin", "sizes/tiny.gin"], ["NUM_HEDS=2"]
      )
    assert registered() == 7
    assert gin.config_is_locked()
  finally:
    gin.clear_config()
