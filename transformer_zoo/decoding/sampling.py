"""The distributions that tokens are drawn from, and the draws."""

import jax
import jax.numpy as jnp

from transformer_zoo.decoding.options import DecodingOptions


def truncate(logits_BWV: jax.Array, options: DecodingOptions) -> jax.Array:
  """Logits of the distribution to draw from.

  Temperature first, then top-k, top-p, min-p, typical, each on what is left by
  those before it: the order of `transformers`.
  """
  logits_BWV = logits_BWV / options.temperature
  if options.top_k is not None:
    logits_BWV = keep_top_k(logits_BWV, options.top_k)
  # Sums of probabilities may exceed 1 before the last token is reached.
  if options.top_p is not None and options.top_p < 1:
    logits_BWV = keep_top_p(logits_BWV, options.top_p)
  if options.min_p is not None:
    logits_BWV = keep_min_p(logits_BWV, options.min_p)
  if options.typical_p is not None and options.typical_p < 1:
    logits_BWV = keep_typical(logits_BWV, options.typical_p)
  return logits_BWV


def keep_top_k(logits_BWV: jax.Array, k: int) -> jax.Array:
  """Keeps the k largest, and what equals the smallest of them."""
  largest_BWK, _ = jax.lax.top_k(logits_BWV, min(k, logits_BWV.shape[-1]))
  return _keep(logits_BWV, logits_BWV >= largest_BWK[..., -1:])


def keep_top_p(logits_BWV: jax.Array, p: float) -> jax.Array:
  """Keeps the fewest likeliest tokens that have probability p together."""
  return _keep_first(logits_BWV, -logits_BWV, p)


def keep_min_p(logits_BWV: jax.Array, p: float) -> jax.Array:
  """Keeps tokens of at least p times the probability of the likeliest."""
  largest_BW1 = jnp.max(logits_BWV, axis=-1, keepdims=True)
  return _keep(logits_BWV, logits_BWV >= largest_BW1 + jnp.log(p))


def keep_typical(logits_BWV: jax.Array, p: float) -> jax.Array:
  """Keeps tokens of about the expected information, probability p together."""
  log_probs_BWV = jax.nn.log_softmax(logits_BWV)
  possible_BWV = jnp.isfinite(log_probs_BWV)
  terms_BWV = jnp.exp(log_probs_BWV) * log_probs_BWV
  entropy_BW1 = -jnp.sum(
    jnp.where(possible_BWV, terms_BWV, 0.0), axis=-1, keepdims=True
  )
  distance_BWV = jnp.abs(-log_probs_BWV - entropy_BW1)
  return _keep_first(logits_BWV, distance_BWV, p)


def draw(
  logits_BWV: jax.Array,
  options: DecodingOptions,
  example_ids_B: jax.Array,
  position: jax.Array,
) -> jax.Array:
  """Draws a token for each row and output, int32 [B, W].

  The key is made of seed, example, output and position: neither the other rows
  of the batch nor the mesh change a draw.
  """
  seed = _key(options.seed)
  outputs = jnp.arange(logits_BWV.shape[1])

  def draw_one(example, output, logits_V):
    key = seed
    for number in (example, output, position):
      key = jax.random.fold_in(key, number)
    return jax.random.categorical(key, logits_V)

  each_output = jax.vmap(draw_one, in_axes=(None, 0, 0))
  each_row = jax.vmap(each_output, in_axes=(0, None, 0))
  return each_row(example_ids_B, outputs, truncate(logits_BWV, options)).astype(
    jnp.int32
  )


def _key(seed: int) -> jax.Array:
  """The key of 64 bits, of which `jax.random.key` takes the lower half."""
  key = jax.random.key(seed % 2**32)
  upper = (seed >> 32) % 2**32
  return jax.random.fold_in(key, upper) if upper else key


def _keep(logits_BWV, kept_BWV):
  return jnp.where(kept_BWV, logits_BWV, -jnp.inf)


def _keep_first(logits_BWV, order_BWV, p):
  """Keeps tokens in ascending order until they have probability p.

  The first is kept whatever p is, and what equals the last one kept.
  """
  probabilities_BWV = jax.nn.softmax(logits_BWV)
  sorted_BWV, probabilities_BWV = jax.lax.sort(
    (order_BWV, probabilities_BWV), dimension=-1, num_keys=1
  )
  before_BWV = jnp.cumsum(probabilities_BWV, axis=-1) - probabilities_BWV
  last_BW1 = jnp.sum(before_BWV < p, axis=-1, keepdims=True) - 1
  limit_BW1 = jnp.take_along_axis(sorted_BWV, jnp.maximum(last_BW1, 0), axis=-1)
  return _keep(logits_BWV, order_BWV <= limit_BW1)
