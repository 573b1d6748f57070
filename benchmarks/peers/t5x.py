"""T5X's own T5, loss, Adafactor and searches, for comparison.py.

Takes one JSON argument; needs T5X on the path (github.com/google-research/t5x).
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from t5x import adafactor
from t5x import decoding
from t5x import losses
from t5x.examples.t5 import layers
from t5x.examples.t5 import network
from workloads import random_batches
from workloads import timing


class GatheredEmbed(layers.Embed):
  """T5X's embedding; a gather also where its network asks for a product."""

  def __post_init__(self):
    object.__setattr__(self, "one_hot", False)
    super().__post_init__()


def build(work: dict) -> network.Transformer:
  """A T5.1.1, float32; with `gather`, its embeddings are a gather."""
  if work.get("gather"):
    layers.Embed = GatheredEmbed
  return network.Transformer(
    network.T5Config(
      vocab_size=work["vocab_size"],
      emb_dim=work["d_model"],
      mlp_dim=work["d_ff"],
      num_heads=work["num_heads"],
      head_dim=work["head_dim"],
      num_encoder_layers=work["num_encoder_layers"],
      num_decoder_layers=work["num_decoder_layers"],
      dropout_rate=work.get("dropout", 0.0),
      mlp_activations=("gelu", "linear"),
      logits_via_embedding=False,
      dtype=jnp.float32,
    )
  )


def train(work: dict) -> dict:
  """Figures of each step: forward, backward, Adafactor."""
  model = build(work)
  batch = jax.tree.map(
    jnp.asarray,
    random_batches.packed(
      work["batch_size"], work["inputs"], work["targets"], work["vocab_size"]
    ),
  )
  weights = batch.pop("decoder_loss_weights")
  targets = batch["decoder_target_tokens"]
  params = jax.jit(
    lambda key: model.init(key, **batch, enable_dropout=False)["params"]
  )(jax.random.key(0))
  optimizer = adafactor.Adafactor(decay_rate=0.8, step_offset=0)
  state = optimizer.init_state(params)
  settings = optimizer.hyper_params.replace(learning_rate=1e-2)

  def loss_of(params, key):
    logits = model.apply(
      {"params": params}, **batch, enable_dropout=True, rngs={"dropout": key}
    )
    loss, z_loss, total = losses.compute_weighted_cross_entropy(
      logits,
      targets=targets,
      weights=weights,
      label_smoothing=0.0,
      z_loss=1e-4,
      loss_normalizing_factor=None,
    )
    correct = jnp.sum((jnp.argmax(logits, -1) == targets) * weights)
    return loss / total, (z_loss, correct)

  def step(params, state, key):
    gradient_of = jax.value_and_grad(loss_of, has_aux=True)
    metrics, gradient = gradient_of(params, key)
    params, state = optimizer.apply_gradient(settings, params, state, gradient)
    return params, state, metrics

  run_step = jax.jit(step, donate_argnums=(0, 1))
  held = [params, state]

  def run():
    held[0], held[1], metrics = run_step(*held, jax.random.key(1))
    jax.block_until_ready((held, metrics))

  return timing.timed(run, work["warmup"], work["steps"])


def decode(work: dict) -> dict:
  """Figures of each batch that is decoded to its full length.

  As `EncoderDecoderModel.predict_batch_with_aux` does it.
  """
  model = build(work)
  num_beams, length = work["num_beams"], work["targets"]
  inputs = jnp.asarray(
    np.random.default_rng(0).integers(
      3, work["vocab_size"], (work["batch_size"], work["inputs"]), np.int32
    )
  )
  targets = jnp.ones((work["batch_size"], length), jnp.int32)
  params = jax.jit(
    lambda key: model.init(key, inputs, targets, targets, enable_dropout=False)[
      "params"
    ]
  )(jax.random.key(0))

  @jax.jit
  def generate(params, inputs):
    variables = {"params": params}
    _, made = model.apply(
      variables,
      *(inputs, targets, targets),
      decode=True,
      enable_dropout=False,
      mutable=["cache"],
    )
    encoded = decoding.flat_batch_beam_expand(
      model.apply(variables, inputs, enable_dropout=False, method=model.encode),
      num_beams,
    )
    repeated = decoding.flat_batch_beam_expand(inputs, num_beams)

    def tokens_to_logits(state):
      logits, changed = model.apply(
        {"params": params, "cache": state.cache},
        *(encoded, repeated, state.cur_token, state.cur_token),
        decode=True,
        enable_dropout=False,
        max_decode_length=length,
        mutable=["cache"],
        method=model.decode,
      )
      return jnp.squeeze(logits, axis=1), changed["cache"]

    # No token is EOS, so that no row ends early.
    arguments = (jnp.zeros_like(targets), made["cache"], tokens_to_logits, -1)
    if num_beams > 1:
      return decoding.beam_search(*arguments, num_decodes=num_beams, alpha=0.6)
    return decoding.temperature_sample(
      *arguments, jax.random.key(0), temperature=0.0, topk=0
    )

  return timing.timed(
    lambda: jax.block_until_ready(generate(params, inputs)), 1, work["repeats"]
  )


if __name__ == "__main__":
  asked = json.loads(sys.argv[1])
  print(json.dumps({"train": train, "decode": decode}[asked["task"]](asked)))
