"""A Transformer without its embedder and its heads: what stands around a stack.

An encoder is one, and `Decoder` is one with a head. Parameters lie directly
under it, the stack's beside the other parts', as in T5X.
"""

from collections.abc import Mapping
import functools
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention import masks
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.normalization import RMSNorm
from transformer_zoo.modules.parts import part
from transformer_zoo.modules.positions import Positions
from transformer_zoo.modules.positions import score_bias
from transformer_zoo.modules.stack import refuse_with_stages


@gin.register
class Transformer(nn.Module):
  """Positions, dropout, the layers, and a final norm.

  Attributes:
    layer_stack: the layers, a `Stack` or one of another kind.
    position_embedder: adds a vector to each embedding by its position, or None.
    input_norm: normalization of what enters, or None.
    dropout: applied to what enters.
    input_projection: goes from what enters, after dropout, to the width of the
      layers (modules/embedding.py); None if they are equal.
    position_bias: gives all layers a bias [1, H, L, M], or None.
    relative_embedder: gives all layers a `RelativeTable`, or None.
    by_layer: The parts that give each layer values of its own
      (modules/by_layer.py).
    norm: final normalization, or None (post-norm layers).
    norm_name: The name of the final norm in the parameter tree.
    mix: makes the output of what enters the first layer and what comes out of
      each, the last of them normalized (modules/mixes.py); None takes the last
      alone.
    output_dropout: applied to the output; as `dropout` if None.
  """

  layer_stack: nn.Module
  position_embedder: nn.Module | None = None
  input_norm: nn.Module | None = None
  dropout: nn.Module = part(Dropout)
  input_projection: nn.Module | None = None
  position_bias: nn.Module | None = None
  relative_embedder: nn.Module | None = None
  by_layer: tuple[nn.Module, ...] = ()
  norm: nn.Module | None = part(RMSNorm)
  norm_name: str = "final_norm"
  mix: nn.Module | None = None
  output_dropout: nn.Module | None = None

  def setup(self):
    nn.share_scope(self, self.layer_stack)

  @nn.compact
  def __call__(
    self,
    x_BLD: Any,
    *layer_arguments: jax.Array,
    mask_B1LM: jax.Array | masks.Mask | None = None,
    positions: Positions | None = None,
    token_positions_1L: jax.Array | None = None,
    by_layer: Mapping[str, jax.Array] | None = None,
    with_states: bool = False,
    deterministic: bool = True,
    **layer_keywords: Any,
  ) -> Any:
    """Applies the layers to embeddings.

    Args:
      x_BLD: embeddings, or `Streams` of them.
      *layer_arguments: further positional arguments of every layer.
      mask_B1LM: True where a query may attend.
      positions: The positions of queries and keys; 0 to L - 1 by default.
      token_positions_1L: [1 or B, L] for `position_embedder`: packed examples
        each start from 0; the positions of the queries by default.
      by_layer: Further values that differ by layer, as of the parts `by_layer`.
      with_states: Whether what entered each layer is returned too, [N, B, L, D]
        of contents.
      deterministic: no dropout.
      **layer_keywords: further keyword arguments of every layer.

    Returns:
      [B, L, D], in the form of x.
    """
    first_BLD, keywords, of_each = self._entered(
      x_BLD, mask_B1LM, positions, token_positions_1L, deterministic
    )
    collects = with_states or self.mix is not None
    x_BLD, states_NBLD = self.layer_stack(
      first_BLD,
      *layer_arguments,
      **layer_keywords,
      **keywords,
      by_layer={**of_each, **(by_layer or {})},
      collect=contents if collects else None,
      deterministic=deterministic,
    )
    y_BLD = self._left(first_BLD, x_BLD, states_NBLD, deterministic)
    if not with_states:
      return y_BLD
    return y_BLD, jnp.stack([contents(first_BLD), *states_NBLD][:-1])

  def embedded(
    self, x_BLD: jax.Array, token_positions_1L: jax.Array
  ) -> jax.Array:
    """Embeddings with their positions, normalized, before dropout.

    Args:
      x_BLD: embeddings [B, L, D], of the width of `position_embedder`.
      token_positions_1L: The position of each token, [1 or B, L].
    """
    if self.position_embedder is not None:
      added_1LD = self.position_embedder(token_positions_1L)
      if added_1LD.shape[-1] != x_BLD.shape[-1]:
        raise UserError(
          f"{type(self.position_embedder).__name__}.features is "
          f"{added_1LD.shape[-1]}, but embeddings have {x_BLD.shape[-1]}; set "
          "EMBED_DIM, which both read"
        )
      x_BLD += added_1LD.astype(x_BLD.dtype)
    if self.input_norm is not None:
      x_BLD = self.input_norm(x_BLD)
    return x_BLD

  @nn.nowrap
  def _entered(
    self, x_BLD, mask_B1LM, positions, token_positions_1L, deterministic
  ):
    """What the first layer reads; the keywords of all layers, and of each."""
    if positions is None:
      positions = Positions.of_length(x_BLD.shape[1])
    if token_positions_1L is None:
      token_positions_1L = positions.query_1L
    refuse_with_stages({"Transformer.mix": self.mix is not None})
    x_BLD = self.embedded(x_BLD, token_positions_1L)
    keywords = {"mask_B1LM": mask_B1LM, "bias_1HLM": None}
    keywords["positions"] = positions
    if self.position_bias is not None:
      keywords["bias_1HLM"] = score_bias(
        self.position_bias.copy(name="relpos_bias"), positions
      )
    if self.relative_embedder is not None:
      keywords["relative"] = self.relative_embedder(
        positions, deterministic=deterministic
      )
    dropout = functools.partial(self.dropout, deterministic=deterministic)
    x_BLD = jax.tree.map(dropout, x_BLD)
    if self.input_projection is not None:
      x_BLD = self.input_projection(x_BLD)
    by_layer = {}
    for each in self.by_layer:
      by_layer |= each(self.layer_stack.num_layers)
    return x_BLD, keywords, by_layer

  @nn.nowrap
  def _left(self, first_BLD, x_BLD, states_NBLD, deterministic):
    """The output of what the last layer gives."""
    if self.norm is not None:
      x_BLD = self.norm.copy(name=self.norm_name)(x_BLD)
    if self.mix is not None:
      states = [first_BLD, *states_NBLD][:-1] + [x_BLD]
      x_BLD = self.mix(states, deterministic=deterministic)
    return self._dropped_out(x_BLD, deterministic)

  @nn.nowrap
  def _dropped_out(self, x_BLD, deterministic):
    dropout = self.output_dropout or self.dropout
    return jax.tree.map(
      functools.partial(dropout, deterministic=deterministic), x_BLD
    )


def contents(x: Any) -> jax.Array:
  """The contents of `Streams`, or x itself."""
  return getattr(x, "content_BLD", x)
