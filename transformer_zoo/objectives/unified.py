"""Encoders fine-tuned to write: tokens of the second segment.

A row is `[CLS] source [SEP] target [SEP]`. UniLM reads it under the mask of
sequence to sequence attention; some tokens of the target, its end among them,
are hidden and predicted (Dong et al. 2019, section 2.4; microsoft/unilm,
`Preprocess4Seq2seq`). A permuted encoder predicts all tokens of the target by
its query stream, from left to right (Lewis et al. 2020, section 4.1).
"""

from collections.abc import Mapping
import dataclasses
import functools

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.modules import dropout
from transformer_zoo.objectives import encoder
from transformer_zoo.objectives import losses as losses_lib
from transformer_zoo.objectives.encoder import Batch
from transformer_zoo.objectives.interface import Objective
from transformer_zoo.objectives.terms import Term


@gin.register
@dataclasses.dataclass(frozen=True)
class UnifiedGeneration(Objective):
  """Cross-entropy of masked tokens of the target.

  A permuted encoder hides none: its query stream sees nothing of what it
  predicts, and the whole target counts.

  Attributes:
    hidden_share: The share of the tokens of a target that are hidden, above 0
      and at most 1; at least one is.
    masked: The share of masked tokens that are replaced by [MASK].
    random: The share of masked tokens that are replaced by a random one; the
      others stay.
    loss: The loss of the head of masked tokens.
  """

  hidden_share: float = 0.7
  masked: float = 0.8
  random: float = 0.1
  loss: encoder.EncoderLoss = encoder.MaskedTokenLoss()

  def __post_init__(self):
    if not 0 < self.hidden_share <= 1:
      raise UserError(
        f"UnifiedGeneration.hidden_share is {self.hidden_share}; it must be a "
        "share of the tokens of a target above 0, at most 1"
      )
    if min(self.masked, self.random) < 0 or self.masked + self.random > 1:
      raise UserError(
        f"UnifiedGeneration.masked is {self.masked} and random {self.random}; "
        "they must be shares of the masked tokens that are together at most 1"
      )

  def check(self, model: nn.Module) -> None:
    """Raises UserError for a model that does not write, or without the head."""
    offers = model.offers
    if offers.writes != "masks" and offers.direction != "permuted":
      raise UserError(
        f"train.objective is @UnifiedGeneration(), but {type(model).__name__} "
        "writes no text by filling masks; choose architectures/unilm.gin"
      )
    model.check_head(self.loss.head)

  def __call__(
    self,
    model: nn.Module,
    params,
    batch: Batch,
    dropout_key: jax.Array | None = None,
  ) -> dict[str, Term]:
    """The term of one batch.

    Args:
      model: a `UniLM` or a `XLNet`.
      params: The parameters of the model.
      batch: what the converter `Unified` lays out.
      dropout_key: The key for dropout and for what is hidden; None for no
        dropout, and the same hidden places in every batch.
    """
    key = jax.random.key(0) if dropout_key is None else dropout_key
    if model.offers.writes == "masks":
      batch = self.hide(jax.random.fold_in(key, 1), model, batch)
    objective = encoder.EncoderObjective((self.loss,))
    return objective(model, params, batch, dropout_key)

  def hide(self, key: jax.Array, model: nn.Module, batch: Batch) -> Batch:
    """The batch with masked tokens, which alone have a weight."""
    tokens_BL = batch["encoder_input_tokens"]
    target_BL = batch["encoder_loss_weights"] > 0
    keys_B = dropout.keys_of_rows(key, len(tokens_BL))
    order_BL, kind_BL = (
      jax.vmap(
        lambda key, i=i: jax.random.uniform(
          jax.random.fold_in(key, i), tokens_BL.shape[1:]
        )
      )(keys_B)
      for i in (0, 1)
    )
    others_BL = jax.vmap(
      lambda key: jax.random.randint(
        jax.random.fold_in(key, 2),
        tokens_BL.shape[1:],
        0,
        model.token_embedder.num_embeddings,
      )
    )(keys_B)
    # Padding in the middle of a row would not be seen.
    others_BL = jnp.where(others_BL == model.pad_id, model.mask_id, others_BL)
    order_BL = jnp.where(target_BL, order_BL, 2.0)
    rank_BL = jnp.argsort(jnp.argsort(order_BL, axis=1), axis=1)
    length_B1 = jnp.sum(target_BL, axis=1, keepdims=True)
    number_B1 = jnp.maximum(jnp.round(self.hidden_share * length_B1), 1)
    hidden_BL = target_BL & (rank_BL < number_B1)
    replaced_BL = jnp.where(
      kind_BL < self.masked,
      model.mask_id,
      jnp.where(kind_BL < self.masked + self.random, others_BL, tokens_BL),
    )
    return {
      **batch,
      "encoder_input_tokens": jnp.where(hidden_BL, replaced_BL, tokens_BL),
      "encoder_loss_weights": hidden_BL.astype(jnp.int32),
    }


@gin.register(module="unified")
def row_length(lengths: Mapping[str, int]) -> int:
  """The most tokens of a row with [CLS], inputs and targets.

  Positions are learned for these; rows in which targets are scored have a mask
  behind them for each token of the target.

  Args:
    lengths: `TASK_FEATURE_LENGTHS`.
  """
  return 1 + lengths["inputs"] + lengths["targets"]


def example_sums(
  model: nn.Module, params, batch: Batch
) -> dict[str, jax.Array]:
  """The likelihood of each target as it would be written, without dropout.

  Args:
    model: a `UniLM`.
    params: The parameters of the model.
    batch: what the converter `Unified` lays out.

  Returns:
    As `sequence_to_sequence.example_sums`.
  """
  apply = functools.partial(model.apply, {"params": params})
  hidden_BPD = apply(batch, method="written")
  places_BP = batch["encoder_predicted_places"]
  targets_BP, weights_BP = (
    jnp.take_along_axis(batch[name], places_BP, axis=1)
    for name in ("encoder_target_tokens", "encoder_loss_weights")
  )
  found = losses_lib.token_losses(
    lambda hidden_BpD: apply(hidden_BpD, method="logits"),
    hidden_BPD,
    targets_BP,
    z_loss=0.0,
    tokens=targets_BP.size,
  )
  weights_BP = weights_BP.astype(jnp.float32)
  return {
    "loss_sum": jnp.sum(found.nll_BL * weights_BP, axis=1),
    "correct_sum": jnp.sum(found.correct_BL * weights_BP, axis=1),
    "weight_sum": jnp.sum(weights_BP, axis=1),
  }
