"""A stack of layers, scanned or looped; the one place for scan and remat."""

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.normalization import RMSNorm
from transformer_zoo.modules.parts import part

REMAT_POLICIES = {
  "none": None,
  "minimal": jax.checkpoint_policies.checkpoint_dots_with_no_batch_dims,
  "full": jax.checkpoint_policies.nothing_saveable,
}


@gin.register
class Stack(nn.Module):
  """`num_layers` copies of a layer between dropout and a final norm.

  Parameters of copy i lie under `layers_{i}`, or, scanned, under `layers`
  with a leading axis `layers`: scanning compiles one layer once.

  Attributes:
    layer: the layer to repeat.
    num_layers: N.
    position_bias: gives all layers a bias [1, H, L, M], or None.
    norm: final normalization, or None (post-norm stacks).
    norm_name: what the final norm is called in the parameter tree.
    dropout: applied to the input and to the output.
    scan: whether to scan over the layers.
    remat: what the backward pass computes again: a key of `REMAT_POLICIES`.
  """

  layer: nn.Module
  num_layers: int
  position_bias: nn.Module | None = None
  norm: nn.Module | None = part(RMSNorm)
  norm_name: str = "final_norm"
  dropout: nn.Module = part(Dropout)
  scan: bool = False
  remat: str = "none"

  def __post_init__(self):
    if self.remat not in REMAT_POLICIES:
      raise UserError(
        f"unknown remat policy {self.remat!r}; "
        f"allowed: {', '.join(REMAT_POLICIES)}"
      )
    super().__post_init__()

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    *layer_arguments: jax.Array,
    query_positions_L: jax.Array | None = None,
    key_positions_M: jax.Array | None = None,
    deterministic: bool = True,
    **layer_keywords,
  ) -> jax.Array:
    """Applies the layers in order.

    Args:
      x_BLD: embeddings.
      *layer_arguments: further positional arguments of every layer.
      query_positions_L, key_positions_M: positions for `position_bias`;
        0 to L-1 by default.
      deterministic: no dropout.
      **layer_keywords: further keyword arguments of every layer.

    Returns:
      [B, L, D].
    """
    positions_L = jnp.arange(x_BLD.shape[1])
    if query_positions_L is None:
      query_positions_L = positions_L
    if key_positions_M is None:
      key_positions_M = positions_L
    bias_1HLM = None
    if self.position_bias is not None:
      relpos_bias = self.position_bias.copy(name="relpos_bias")
      bias_1HLM = relpos_bias(query_positions_L, key_positions_M)

    def apply_layer(layer, x, arguments, keywords):
      x = layer(x, *arguments, **keywords, deterministic=deterministic)
      return x, None

    if self.remat != "none":
      # prevent_cse guards against XLA undoing the remat; scan does already.
      apply_layer = nn.remat(
        apply_layer,
        policy=REMAT_POLICIES[self.remat],
        prevent_cse=not self.scan,
      )
    keywords = {**layer_keywords, "bias_1HLM": bias_1HLM}
    x_BLD = self.dropout(x_BLD, deterministic=deterministic)
    if self.scan:
      scanned = nn.scan(
        apply_layer,
        variable_axes={"params": 0, "cache": 0},
        split_rngs={"params": True, "dropout": True},
        in_axes=nn.broadcast,
        length=self.num_layers,
        metadata_params={nn.PARTITION_NAME: "layers"},
      )
      layers = self.layer.copy(name="layers")
      x_BLD, _ = scanned(layers, x_BLD, layer_arguments, keywords)
    else:
      for i in range(self.num_layers):
        layer = self.layer.copy(name=f"layers_{i}")
        x_BLD, _ = apply_layer(layer, x_BLD, layer_arguments, keywords)
    if self.norm is not None:
      x_BLD = self.norm.copy(name=self.norm_name)(x_BLD)
    return self.dropout(x_BLD, deterministic=deterministic)
