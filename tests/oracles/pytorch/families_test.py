"""Every family against its class of `transformers`, live: make test-oracles.

What the classes compute in a padded batch is recorded by
tests/oracles/pytorch/make_goldens.py.
"""

from flax import traverse_util
from huggingface_hub.errors import StrictDataclassClassValidationError
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers

from tests import programs
from tests import tiny_models
from tests import tiny_t5
from tests.golden import families
from tests.golden import variants
from tests.oracles.pytorch import huggingface
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.modules.attention.cache import Decoding

LOGITS_TOLERANCE = 2e-5
GRADIENT_TOLERANCE = 1e-4
MADE = 14
# `transformers` 5.23 makes as many caches as the encoder has layers.
AS_DEEP = {
  "t5": {"num_decoder_layers": 2, "num_layers": 2},
  "marian": {"decoder_layers": 2},
}
AS_DEEP["mt5"] = AS_DEEP["umt5"] = AS_DEEP["t5"]
AS_DEEP["switch_transformers"] = AS_DEEP["longt5"] = AS_DEEP["t5"]
AS_DEEP["bart"] = AS_DEEP["mbart"] = AS_DEEP["marian"]

# Scanned, a model's layers are compiled once.
outputs = variants.of_scanned(variants.outputs, gradient=True)
every_config = pytest.mark.parametrize("name", families.CONFIGS)


@every_config
def test_logits_loss_and_gradient_of_every_parameter(name, report):
  """Of our model, and of theirs as we describe it."""
  config, model, params, batch = families.setting(name)
  found = outputs(model, params, batch)
  described = family_of(config).config(model)
  theirs = huggingface.outputs(described, model, params, batch)
  assert set(found) == set(theirs)
  largest = {entry: np.abs(value).max() for entry, value in theirs.items()}
  if model.decoder.transformer.layer_stack.layer.self_attention.rotary is None:
    # A bias of all keys cancels in the softmax: what is left of its gradient
    # is rounding, on both sides.
    most = max(v for k, v in largest.items() if k.startswith("gradient/"))
    for entry in [entry for entry in theirs if entry.endswith("key/bias")]:
      assert np.abs(found.pop(entry)).max() < 1e-6 * most
      assert np.abs(theirs.pop(entry)).max() < 1e-6 * most
  differences = {
    entry: np.abs(found[entry] - theirs[entry]).max() / largest[entry]
    for entry in theirs
  }
  logits, loss = differences.pop("logits"), differences.pop("loss")
  worst = max(differences, key=differences.get)
  report("logits", logits)
  report(worst, differences[worst])
  assert logits < LOGITS_TOLERANCE
  assert loss < 1e-5
  assert differences[worst] < GRADIENT_TOLERANCE, worst


@pytest.mark.parametrize(
  "name", [name for name in families.CONFIGS if name != "byt5"]
)
def test_greedy_decoding_with_cache(name, report):
  """The logits of every step, from a cache on both sides.

  That `generate` makes the same tokens is seen in generation_test.py, but of
  two vocabularies here.
  """
  changes = AS_DEEP.get(families.CONFIGS[name]["model_type"], {})
  config, model, params, batch = families.setting(name, **changes)
  theirs = huggingface.load(config, params)
  inputs = batch.get("encoder_input_tokens", batch["decoder_target_tokens"])
  made = [
    huggingface.greedy(theirs, row[row != model.pad_id], MADE) for row in inputs
  ]
  tokens = np.full((len(inputs), MADE), model.pad_id, np.int32)
  for row, (their_tokens, _) in zip(tokens, made, strict=True):
    row[: len(their_tokens)] = their_tokens
  if name == "marian_two_vocabularies":
    found = made_by(model, params, inputs, start_before_prompt=True).tokens
    np.testing.assert_array_equal(found[:, 0], tokens)
  start_id = config.get("decoder_start_token_id")
  scanned = tiny_models.scanned(model)
  if scanned != model:
    params = tiny_models.stack_layers(params)
  stepped = step_logits(
    scanned,
    params,
    inputs,
    start_id if model.offers.has_encoder else None,
    tokens,
  )
  difference = max(
    tiny_t5.largest_difference(row[: len(logits)], logits)
    for row, (_, logits) in zip(stepped, made, strict=True)
  )
  report("logits of steps", difference)
  assert difference < LOGITS_TOLERANCE


def made_by(model, params, inputs, **options):
  return jax.tree.map(
    np.asarray,
    programs.run(
      generate, model, params, inputs, MADE, start_id=model.pad_id,
      pad_id=model.pad_id, options=DecodingOptions(**options),
    ),
  )  # fmt: skip


def test_forbidden_ids_are_bad_words():
  """Published Marian models never make their padding."""
  config, model, params, batch = families.setting("marian", **AS_DEEP["marian"])
  theirs = huggingface.load(config, params)
  inputs = batch["encoder_input_tokens"]
  free = made_by(model, params, inputs).tokens
  forbidden = tuple(set(free[:, 0, 1].tolist()))
  made = made_by(model, params, inputs, forbidden_ids=forbidden).tokens[:, 0]
  for row, source in zip(made, inputs, strict=True):
    tokens, _ = huggingface.greedy(
      theirs,
      source[source != model.pad_id],
      MADE,
      bad_words_ids=[[token] for token in forbidden],
    )
    np.testing.assert_array_equal(row[: len(tokens)], tokens)


def test_beams():
  """Of a model with post-norms, sinusoids and padding that is no 0."""
  config, model, params, batch = families.setting("marian", **AS_DEEP["marian"])
  inputs = batch["encoder_input_tokens"]
  made = made_by(
    model, params, inputs, num_beams=4, num_return=4, beam_rules="transformers"
  )
  theirs = huggingface.load(config, params)
  for row, scores, source in zip(made.tokens, made.scores, inputs, strict=True):
    tokens, expected = huggingface.beams(
      theirs, source[source != model.pad_id], MADE, 4
    )
    tokens = np.pad(
      tokens,
      ((0, 0), (0, MADE - tokens.shape[1])),
      constant_values=model.pad_id,
    )
    np.testing.assert_array_equal(row, tokens)
    np.testing.assert_allclose(scores, expected, rtol=2e-5)


def step_logits(model, params, inputs, start_id, tokens) -> np.ndarray:
  """Logits [B, T, V] of feeding tokens [B, T] one by one."""
  return np.asarray(
    programs.run(_step_logits, model, params, inputs, start_id, tokens)
  )


def _step_logits(model, params, inputs, start_id, tokens):
  decoding = Decoding(position=jnp.asarray(0), length=MADE)
  (read, memory), cache = model.apply(
    {"params": params}, inputs, start_id=start_id, decoding=decoding,
    method=model.prefill, mutable=["cache"],
  )  # fmt: skip

  def step(cache, fed):
    token, position = fed
    logits, cache = model.apply(
      {"params": params, **cache}, token, *memory,
      Decoding(position=position, length=MADE),
      method=model.decode_step, mutable=["cache"],
    )  # fmt: skip
    return cache, logits[:, 0]

  fed = jnp.concatenate([read[:, -1:], tokens[:, : MADE - 1]], axis=1)
  fed = fed.T[..., None], jnp.arange(MADE)
  # An encoder's decoder has no cache before its first step.
  cache, first = step(cache, jax.tree.map(lambda each: each[0], fed))
  _, others = jax.lax.scan(
    step, cache, jax.tree.map(lambda each: each[1:], fed)
  )
  return jnp.concatenate([first[None], others]).swapaxes(0, 1)


@every_config
def test_a_model_that_they_draw_is_read(name, tmp_path, report):
  """Their initial weights and their way of saving, read from the directory."""
  report("logits", difference_of_logits(families.CONFIGS[name], tmp_path))


@pytest.mark.parametrize("types", [[[["global"], 3]], [[["global"], 5]]])
def test_attention_layers_of_gpt_neo_overrule_attention_types(
  types, tmp_path, report
):
  config = families.CONFIGS["gpt_neo"] | {"attention_types": types}
  kinds = ["local", "global", "local"]
  report(
    "logits",
    difference_of_logits(config | {"attention_layers": kinds}, tmp_path),
  )
  # Neither takes a list for another number of layers.
  for config["attention_layers"] in (kinds[:2], [], None):
    with pytest.raises(UserError, match="attention_layers"):
      family_of(config).architecture(config)
    with pytest.raises(StrictDataclassClassValidationError):
      transformers.AutoConfig.for_model(**config)


def difference_of_logits(config, folder) -> float:
  """The largest one, of their model drawn and saved and of ours read there."""
  torch.manual_seed(0)
  config = transformers.AutoConfig.for_model(**config)
  theirs = huggingface.class_of(config).from_config(config).eval()
  theirs.save_pretrained(folder)
  found = directory.open_directory(folder)
  model = families.build(found.config)
  params = traverse_util.unflatten_dict(
    {n: np.array(t.read()) for n, t in found.parameters().items()}, sep="/"
  )
  batch = families.batch_for(model)
  with torch.no_grad():
    logits, _ = huggingface.logits_and_loss(theirs, batch, model.pad_id)
  real = batch["decoder_target_tokens"] != model.pad_id
  difference = tiny_t5.largest_difference(
    outputs(model, params, batch)["logits"], logits.numpy()[real]
  )
  assert difference < LOGITS_TOLERANCE
  return difference
