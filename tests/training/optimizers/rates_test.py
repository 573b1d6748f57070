"""A rate that holds for other widths: the coordinate check."""

import functools

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import tiny_models
from tests import tiny_t5
from transformer_zoo import config
from transformer_zoo.errors import UserError
from transformer_zoo.training.optimizers import rates
from transformer_zoo.training.optimizers import schedules

STEPS = 8
UNTIED = "parts/softmax/untied.gin"
MUP, ADAMW = ("optimizers/mup.gin",), ("optimizers/adamw.gin",)


@functools.cache
def change_of_logits(files, width):
  """The root mean square by which a few steps change the logits."""
  sizes = {
    "EMBED_DIM": width,
    "MLP_DIM": 2 * width,
    "NUM_HEADS": width // 8,
    "HEAD_DIM": 8,
    "VOCAB_SIZE": 48,
    "NUM_DECODER_LAYERS": 1,
    "MODEL_DIR": "'-'",
    "MIXTURE_OR_TASK_NAME": "'-'",
  }
  if files != ADAMW:
    sizes["BASE_WIDTH"] = 16
  config.load(
    ["architectures/lm.gin", UNTIED, "runs/pretrain.gin", *files],
    [f"{name}={value}" for name, value in sizes.items()],
  )
  run = gin.get_bindings("train")
  model = run["model"]
  optimizer = run["optimizer"](schedules.constant(2e-2))
  batch = tiny_models.lay_out(
    run["converter"], tiny_models.random_examples(), packing=False
  )

  @jax.jit
  def change():
    variables = model.init(jax.random.key(0), batch, method="all_logits")
    before = nn.unbox(variables["params"])

    def step(carry, _):
      params, state = carry
      slopes = jax.grad(lambda p: tiny_t5.loss_and_sums(model, p, batch)[0])(
        params
      )
      updates, state = optimizer.update(slopes, state, params)
      return (optax.apply_updates(params, updates), state), None

    (after, _), _ = jax.lax.scan(
      step, (before, optimizer.init(before)), length=STEPS
    )
    logits = [
      model.apply({"params": params}, batch, method="all_logits")["tokens"]
      for params in (before, after)
    ]
    return jnp.sqrt(jnp.mean(jnp.square(logits[1] - logits[0])))

  return float(change())


def test_logits_move_alike_whatever_the_width():
  """AdamW at one rate moves those of a wide model more."""
  moved = {
    files: [change_of_logits(files, width) for width in (16, 128)]
    for files in (MUP, ADAMW)
  }
  narrow, wide = moved[MUP]
  assert narrow == pytest.approx(moved[ADAMW][0], rel=1e-5)  # The base.
  assert 0.6 < wide / narrow < 1.6
  narrow, wide = moved[ADAMW]
  assert wide / narrow > 1.7


def test_rules_are_data():
  assert rates.of_width(256, 64) == ((r".*/kernel", 0.25),)
  np.testing.assert_equal(rates.share(2, 8), 0.25)
  with pytest.raises(UserError, match="has base 0 and number 8; both are"):
    rates.share(0, 8)
