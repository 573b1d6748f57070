"""Maximum likelihood of targets given inputs, with teacher forcing."""

from collections.abc import Mapping
import dataclasses
import functools

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.objectives import losses
from transformer_zoo.objectives.interface import Objective
from transformer_zoo.objectives.terms import Term
from transformer_zoo.objectives.terms import with_costs

Batch = Mapping[str, jax.Array]
# Fewer would add up gradients of the head too often, at no gain in speed; more
# only need memory (docs/log/performance.md).
LOGITS_CHUNK = 1024


@gin.register
@dataclasses.dataclass(frozen=True)
class SequenceToSequence(Objective):
  """The loss of one batch (Raffel et al. 2020, section 3.1.2).

  Attributes:
    z_loss: The coefficient of the z-loss.
    label_smoothing: The probability that the targets leave to other tokens
      (`losses.smoothing_cost`); T5 has none, the Transformer of 2017 0.1.
    logits_chunk: The approximate number of tokens of which a device has logits
      at a time. The logits of a longer batch are computed chunk by chunk, and
      again in the backward pass.
  """

  z_loss: float = 1e-4
  label_smoothing: float = 0.0
  logits_chunk: int = LOGITS_CHUNK

  def check(self, model: nn.Module) -> None:
    """Raises UserError for a model without a decoder."""
    if "decoder_target_tokens" not in model.offers.reads:
      raise UserError(
        f"train.objective is @SequenceToSequence(), but {type(model).__name__} "
        "has no decoder; name a file of objectives/ for an encoder, or one of "
        "heads/, after the file of the run"
      )

  def __call__(
    self,
    model: nn.Module,
    params,
    batch: Batch,
    dropout_key: jax.Array | None = None,
  ) -> dict[str, Term]:
    """Returns the terms of one batch.

    Args:
      model: An encoder-decoder or a decoder-only model.
      params: The parameters of the model.
      batch: SeqIO's features for such a model, packed or not, each [B, L].
      dropout_key: The key for dropout; None for no dropout.

    Returns:
      The term `tokens`, a sum over targets, with the sums `loss_sum` (nats,
      without z-loss and smoothing), `z_loss_sum` and `correct_sum`; and a term
      for each cost that parts of the model add (modules/costs.py).
    """
    rngs = None if dropout_key is None else {"dropout": dropout_key}
    found, weights_BL, of_parts = _of_tokens(
      model,
      params,
      batch,
      rngs,
      z_loss=self.z_loss,
      label_smoothing=self.label_smoothing,
      logits_chunk=self.logits_chunk,
    )
    metrics = {
      "loss_sum": jnp.sum(found.nll_BL * weights_BL),
      "z_loss_sum": jnp.sum(found.z_BL * weights_BL),
      "correct_sum": jnp.sum(found.correct_BL * weights_BL),
    }
    total = metrics["loss_sum"] + metrics["z_loss_sum"]
    if self.label_smoothing:
      total += jnp.sum(found.smoothing_BL * weights_BL)
    return {"tokens": Term(total, jnp.sum(weights_BL), metrics), **of_parts}


def example_sums(
  model: nn.Module, params, batch: Batch
) -> dict[str, jax.Array]:
  """Returns a model's likelihoods of examples' targets, without dropout.

  Args:
    model: an encoder-decoder or a decoder-only model.
    params: The parameters of the model.
    batch: SeqIO's features for such a model, one example a row.

  Returns:
    float32 [B] each: `loss_sum`, the negative log-likelihood of the targets in
    nats; `correct_sum`, how many of them are the likeliest; `weight_sum`, how
    many there are.
  """
  found, weights_BL, _ = _of_tokens(model, params, batch, None)
  return {
    "loss_sum": jnp.sum(found.nll_BL * weights_BL, axis=-1),
    "correct_sum": jnp.sum(found.correct_BL * weights_BL, axis=-1),
    "weight_sum": jnp.sum(weights_BL, axis=-1),
  }


def _of_tokens(
  model,
  params,
  batch,
  rngs,
  *,
  z_loss=0.0,
  label_smoothing=0.0,
  logits_chunk=LOGITS_CHUNK,
) -> tuple[losses.TokenLosses, jax.Array, dict[str, Term]]:
  """The losses of each target, and its weight; the terms of costs of parts."""
  variables = {"params": params}
  hidden, of_parts = with_costs(
    model.apply,
    variables,
    batch,
    deterministic=rngs is None,
    rngs=rngs,
    method="hidden",
  )
  of_tokens = losses.token_losses(
    functools.partial(model.apply, variables, method="logits"),
    hidden,
    batch["decoder_target_tokens"],
    z_loss=z_loss,
    label_smoothing=label_smoothing,
    tokens=logits_chunk,
  )
  weights_BL = batch["decoder_loss_weights"].astype(jnp.float32)
  return of_tokens, weights_BL, of_parts
