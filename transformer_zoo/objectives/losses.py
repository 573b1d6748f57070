"""Cross-entropy with z-loss and label smoothing, at once or chunk by chunk."""

from collections.abc import Callable
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo import tracing
from transformer_zoo.errors import UserError


class TokenLosses(NamedTuple):
  """The parts of the loss of each target, float32 [B, L] each.

  Attributes:
    nll_BL: negative log-likelihood, without what follows.
    z_BL: z-loss.
    smoothing_BL: The cost that label smoothing adds.
    correct_BL: 1 where no token is likelier.
  """

  nll_BL: jax.Array
  z_BL: jax.Array
  smoothing_BL: jax.Array
  correct_BL: jax.Array


def token_losses(
  head: Callable[[Any], jax.Array],
  hidden_BLD: Any,
  targets_BL: jax.Array,
  *,
  z_loss: float,
  label_smoothing: float = 0.0,
  tokens: int,
) -> TokenLosses:
  """The losses of targets without logits of all of them at a time.

  Of more than so many tokens on a device the logits are made chunk by chunk
  along the length, and once more in the backward pass, which adds up the
  gradients of the head's parameters. The rows of a batch, which lie on
  different devices, stay together.

  Args:
    head: The function from hidden vectors [B, l, D] to float32 logits [B, l,
      V].
    hidden_BLD: The hidden states that the logits are made of; a tuple for
      several models.
    targets_BL: ids.
    z_loss: coefficient of the z-loss.
    label_smoothing: The share of label smoothing, from 0 to below 1; see
      `smoothing_cost`.
    tokens: The approximate number of tokens on a device of which there are
      logits at a time.

  Raises:
    UserError: a number is not what it may be.
  """
  if not 0 <= label_smoothing < 1:
    raise UserError(
      f"SequenceToSequence.label_smoothing is {label_smoothing}; it has to "
      "be at least 0 and below 1"
    )

  def of_chunk(chunk):
    hidden_BlD, targets_Bl = chunk
    logits_BlV = head(hidden_BlD)
    nll_Bl, z_Bl = cross_entropy(logits_BlV, targets_Bl, z_loss)
    # Not by argmax, which costs more than the rest of the loss on some
    # backends.
    target_logits_Bl = jnp.take_along_axis(
      logits_BlV, targets_Bl[..., None], axis=-1
    )[..., 0]
    correct_Bl = target_logits_Bl == jnp.max(logits_BlV, axis=-1)
    smoothing_Bl = jnp.zeros_like(nll_Bl)
    if label_smoothing:
      smoothing_Bl = smoothing_cost(logits_BlV, targets_Bl, label_smoothing)
    return TokenLosses(
      nll_Bl, z_Bl, smoothing_Bl, correct_Bl.astype(jnp.float32)
    )

  return by_chunks(of_chunk, (hidden_BLD, targets_BL), targets_BL.shape, tokens)


def by_chunks(
  of_chunk: Callable[[Any], Any],
  arrays: Any,
  shape: tuple[int, int],
  tokens: int,
) -> Any:
  """Computes something of each token, of some tokens at a time.

  Args:
    of_chunk: The function from arrays [B, l, ...] to arrays [B, l].
    arrays: The arrays [B, L, ...].
    shape: B and L.
    tokens: The approximate number of tokens on a device at a time, as in
      `token_losses`.

  Returns:
    Arrays [B, L].
  """
  number = number_of_chunks(shape, tokens)
  if number == 1:
    return of_chunk(arrays)
  rows, length = shape
  width = math.ceil(length / number)
  tracing.record_choice(
    f"logits of {rows} x {length} targets: {width} places at a time"
  )

  def split(x):
    """[B, L, ...] to [chunks, B, width, ...]; what is missing is 0."""
    missing = [(0, 0), (0, -length % width), *[(0, 0)] * (x.ndim - 2)]
    chunks = jnp.pad(x, missing).reshape(len(x), -1, width, *x.shape[2:])
    return jnp.moveaxis(chunks, 1, 0)

  def join(x_CBl):
    return jnp.moveaxis(x_CBl, 0, 1).reshape(rows, -1)[:, :length]

  # The loop of the map keeps the backward pass from undoing the remat.
  of_chunk = jax.checkpoint(of_chunk, prevent_cse=False)
  return jax.tree.map(join, jax.lax.map(of_chunk, jax.tree.map(split, arrays)))


def smoothing_cost(
  logits_BLV: jax.Array, targets_BL: jax.Array, label_smoothing: float
) -> jax.Array:
  """Returns the cost that label smoothing adds to each target's.

  Cross-entropy with a distribution that gives the target 1 - label_smoothing
  and all others the rest in equal shares, less the entropy of that
  distribution, so that the least cost is 0 (Szegedy et al. 2016, section 7; as
  tensor2tensor and T5X compute it; Vaswani et al. 2017 smooth by 0.1).

  Args:
    logits_BLV: float32.
    targets_BL: ids.
    label_smoothing: The share of label smoothing, above 0 and below 1.

  Returns:
    Nats, [B, L]. With the negative log-likelihood it is at least 0; by itself
    it may be less.
  """
  others = logits_BLV.shape[-1] - 1
  share = label_smoothing / others
  ids_BLV = jax.lax.broadcasted_iota(targets_BL.dtype, logits_BLV.shape, 2)
  weights_BLV = jnp.where(
    ids_BLV == targets_BL[..., None], label_smoothing, -share
  )
  sure = 1.0 - label_smoothing
  entropy = -sure * math.log(sure) - label_smoothing * math.log(share)
  return jnp.sum(weights_BLV * logits_BLV, axis=-1) - entropy


def number_of_chunks(shape: tuple[int, int], tokens: int) -> int:
  """Returns the number of parts into which a batch [B, L] is cut along L.

  It is 1 where the batch size is left open, as in a program that is exported.
  """
  if tokens < 1:
    raise UserError(
      f"logits_chunk is {tokens}; it must be a positive number of tokens"
    )
  if not isinstance(shape[0], int):
    return 1
  on_a_device = math.prod(shape) / axes.partitions("batch")
  return max(1, min(shape[1], math.ceil(on_a_device / tokens)))


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def cross_entropy(
  logits_BLV: jax.Array, targets_BL: jax.Array, z_loss: float
) -> tuple[jax.Array, jax.Array]:
  """Negative log-likelihood of each target, and its z-loss.

  The z-loss z * log(Z)^2 keeps the softmax normalizer near 1 (Mesh TensorFlow
  `softmax_cross_entropy_with_logits`). The gradient is written by hand so that
  neither one-hot targets nor a scatter over the vocabulary is needed.

  Args:
    logits_BLV: float32.
    targets_BL: ids.
    z_loss: coefficient z; T5 uses 1e-4.

  Returns:
    Negative log-likelihood [B, L] without the z-loss, and z-loss [B, L]; the
    objective is their sum.
  """
  return _forward(logits_BLV, targets_BL, z_loss)[0]


def _forward(logits_BLV, targets_BL, z_loss):
  log_normalizer_BL = jax.nn.logsumexp(logits_BLV, axis=-1)
  target_logits_BL = jnp.take_along_axis(
    logits_BLV, targets_BL[..., None], axis=-1
  )[..., 0]
  nll_BL = log_normalizer_BL - target_logits_BL
  z_BL = z_loss * jnp.square(log_normalizer_BL)
  return (nll_BL, z_BL), (logits_BLV, targets_BL, log_normalizer_BL)


def _backward(z_loss, residuals, gradients):
  logits_BLV, targets_BL, log_normalizer_BL = residuals
  nll_gradient_BL, z_gradient_BL = gradients
  softmax_BLV = jnp.exp(logits_BLV - log_normalizer_BL[..., None])
  softmax_gradient_BL = (
    nll_gradient_BL + z_gradient_BL * 2.0 * z_loss * log_normalizer_BL
  )
  ids_BLV = jax.lax.broadcasted_iota(targets_BL.dtype, logits_BLV.shape, 2)
  is_target_BLV = ids_BLV == targets_BL[..., None]
  logits_gradient_BLV = softmax_gradient_BL[
    ..., None
  ] * softmax_BLV - jnp.where(is_target_BLV, nll_gradient_BL[..., None], 0.0)
  return logits_gradient_BLV, None


cross_entropy.defvjp(_forward, _backward)
