"""Cross-entropy with z-loss."""

import functools

import jax
import jax.numpy as jnp


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
