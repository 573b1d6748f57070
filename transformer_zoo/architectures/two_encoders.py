"""Two encoders for two kinds of texts, queries and passages.

Dual encoders whose towers share nothing but the head (DPR: Karpukhin et al.
2020; the asymmetric ones of Dong et al. 2022). `gin_configs/parts/
two_encoders.gin` after the architecture and the head of an encoder.
"""

from collections.abc import Mapping
import dataclasses

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.architectures.encoder_only import EncoderOnly
from transformer_zoo.architectures.encoder_only import Heads
from transformer_zoo.errors import UserError


@gin.register
class TwoEncoders(EncoderOnly):
  """An encoder of the first text of a row, and another one of all others.

  Attributes:
    other: The encoder of the texts behind the first; its parameters lie under
      `other`.
  """

  other: EncoderOnly | None = None

  def hidden(
    self,
    batch: Mapping[str, jax.Array],
    *,
    deterministic: bool = True,
    embedder: nn.Module | None = None,
  ) -> jax.Array:
    """As `EncoderOnly.hidden`; `encoder_segment_ids` separate the texts.

    A batch without these has one text in a row, a first one.
    """
    first_BLD = super().hidden(
      batch, deterministic=deterministic, embedder=embedder
    )
    segments_BL = batch.get("encoder_segment_ids")
    if segments_BL is None and not self.is_initializing():
      return first_BLD
    other_BLD = self.other.hidden(batch, deterministic=deterministic)
    if segments_BL is None:
      return first_BLD
    return jnp.where(segments_BL[..., None] > 1, other_BLD, first_BLD)


@gin.register
def two_encoders(encoder: EncoderOnly) -> TwoEncoders:
  """Returns two encoders like the given one, with its heads.

  Args:
    encoder: An `EncoderOnly`, and no other kind.

  Raises:
    UserError: It is another kind, or its heads read means of texts.
  """
  if type(encoder) is not EncoderOnly or encoder.averages:
    raise UserError(
      "two_encoders.encoder is a "
      f"{type(encoder).__name__}; it takes an EncoderOnly without `averages`, "
      "such as architectures/bert.gin makes"
    )
  fields = {
    field.name: getattr(encoder, field.name)
    for field in dataclasses.fields(encoder)
    if field.name not in ("parent", "name")
  }
  # A part that stood in both would have one set of parameters.
  bare = encoder.clone(_deep_clone=True, heads=Heads({}), pooler=None)
  return TwoEncoders(**fields, other=bare)
