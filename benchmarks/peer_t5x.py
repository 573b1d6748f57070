"""T5X's own T5, loss and Adafactor, for peers.py: one JSON argument.

Needs T5X on the path (github.com/google-research/t5x). Training alone.
"""

import json
import sys
import time

import jax
import jax.numpy as jnp
from t5x import adafactor
from t5x import losses
from t5x.examples.t5 import network
import train_step as steps


def train(work: dict) -> list[float]:
  """Seconds of each step: forward, backward, Adafactor."""
  model = network.Transformer(
    network.T5Config(
      vocab_size=work["vocab_size"],
      emb_dim=work["d_model"],
      mlp_dim=work["d_ff"],
      num_heads=work["num_heads"],
      head_dim=work["head_dim"],
      num_encoder_layers=work["num_encoder_layers"],
      num_decoder_layers=work["num_decoder_layers"],
      dropout_rate=work["dropout"],
      mlp_activations=("gelu", "linear"),
      logits_via_embedding=False,
      dtype=jnp.float32,
    )
  )
  batch = jax.tree.map(
    jnp.asarray,
    steps.make_batch(
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
  key, seconds = jax.random.key(1), []
  for i in range(work["warmup"] + work["steps"]):
    start = time.perf_counter()
    params, state, metrics = run_step(params, state, key)
    jax.block_until_ready((params, metrics))
    if i >= work["warmup"]:
      seconds.append(time.perf_counter() - start)
  return seconds


if __name__ == "__main__":
  asked = json.loads(sys.argv[1])
  if asked["task"] != "train":
    sys.exit("it is measured in training alone")
  print(json.dumps(train(asked)))
