"""DeBERTa's encoder (He et al. 2021): a mask decoder behind a Transformer.

Of version 2 the larger sizes have a convolution beside the first layer too.
`gin_configs/architectures/deberta*.gin` over the modules below.
"""

import functools
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.architectures.transformer import contents
from transformer_zoo.architectures.transformer import Transformer
from transformer_zoo.modules import parts
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.mask_decoder import MaskDecoded
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.stack import refuse_with_stages


class DebertaTransformer(Transformer):
  """A `Transformer` whose last layer is applied again for masked tokens.

  Attributes:
    mask_decoder: applies the last layer again for the head of masked tokens
      (modules/mask_decoder.py), or None.
    convolution: joined to the output of the first layer, or None
      (modules/convolutions/convolution.py).
  """

  mask_decoder: nn.Module | None = None
  convolution: nn.Module | None = None

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    mask_B1LM: jax.Array | masks.Mask | None = None,
    positions: Positions | None = None,
    token_positions_1L: jax.Array | None = None,
    masked_places_BP: jax.Array | None = None,
    deterministic: bool = True,
    **layer_keywords: Any,
  ) -> jax.Array | MaskDecoded:
    """Applies the layers to embeddings.

    Args:
      x_BLD: embeddings.
      mask_B1LM: as of `Transformer`.
      positions: as of `Transformer`.
      token_positions_1L: as of `Transformer`, and for the mask decoder.
      masked_places_BP: The places of which the output of the mask decoder is
        read; it is 0 elsewhere. None for all.
      deterministic: no dropout.
      **layer_keywords: further keyword arguments of every layer.

    Returns:
      [B, L, D], or both outputs if there is a mask decoder.
    """
    refuse_with_stages(
      {
        "deberta_transformer.convolution": self.convolution is not None,
        "deberta_transformer.mask_decoder": self.mask_decoder is not None,
      }
    )
    first_BLD, keywords, by_layer = self._entered(
      x_BLD, mask_B1LM, positions, token_positions_1L, deterministic
    )
    apply_stack = functools.partial(
      self.layer_stack, by_layer=by_layer, deterministic=deterministic
    )
    keywords |= layer_keywords
    collects = self.mask_decoder is not None or self.mix is not None
    x_BLD, states_NBLD = apply_stack(
      first_BLD,
      **keywords,
      after_layer=self._joining(first_BLD, mask_B1LM, deterministic),
      collect=contents if collects else None,
    )
    hidden_BLD = self._left(first_BLD, x_BLD, states_NBLD, deterministic)
    if self.mask_decoder is None:
      return hidden_BLD
    if token_positions_1L is None:
      token_positions_1L = keywords["positions"].query_1L
    before_BLD = first_BLD if len(states_NBLD) == 1 else states_NBLD[-2]
    masked_BLD = self.mask_decoder(before_BLD, token_positions_1L)
    again = {**keywords, "memory_BMD": before_BLD}
    places_BP = masked_places_BP
    if "window" in by_layer or self.position_bias is not None:
      places_BP = None
    if places_BP is not None:
      masked_BLD, again = _at_places(masked_BLD, again, places_BP)
    last = self.layer_stack.num_layers - 1
    masked_BLD, _ = apply_stack(
      masked_BLD, **again, order=[last] * self.mask_decoder.repeats
    )
    if places_BP is not None:
      rows_B1 = jnp.arange(x_BLD.shape[0])[:, None]
      masked_BLD = jnp.zeros_like(x_BLD).at[rows_B1, places_BP].set(masked_BLD)
    return MaskDecoded(hidden_BLD, self._dropped_out(masked_BLD, deterministic))

  @nn.nowrap
  def _joining(self, x_BLD, mask_B1LM, deterministic):
    """The function that joins the convolution to the first layer, or None."""
    if self.convolution is None:
      return None
    convolution = self.convolution(
      x_BLD, masks.whole(mask_B1LM), deterministic=deterministic
    )

    def join(y_BLD, number):
      joined_BLD = self.convolution.join(y_BLD, *convolution)
      return jnp.where(number == 0, joined_BLD, y_BLD)

    return join


@gin.register
def deberta_transformer(
  transformer: Transformer,
  mask_decoder: nn.Module | None = None,
  convolution: nn.Module | None = None,
) -> DebertaTransformer:
  """A `Transformer` with a mask decoder.

  Args:
    transformer: The layers and what stands around them.
    mask_decoder: The mask decoder, or None.
    convolution: The convolution beside the first layer, or None.
  """
  return parts.replaced(
    transformer,
    DebertaTransformer,
    mask_decoder=mask_decoder,
    convolution=convolution,
  )


def _at_places(query_BLD, keywords, places_BP):
  """Queries at some places, [B, P, D], and the keywords of a layer for them."""
  query_BPD = jnp.take_along_axis(query_BLD, places_BP[..., None], axis=1)
  keywords = dict(keywords)
  mask_B1LM = masks.whole(keywords["mask_B1LM"])
  if mask_B1LM is not None:
    keywords["mask_B1LM"] = jnp.take_along_axis(
      mask_B1LM, places_BP[:, None, :, None], axis=2
    )
  if "relative" in keywords:
    keywords["relative"] = keywords["relative"].of_queries(places_BP)
  return query_BPD, keywords
