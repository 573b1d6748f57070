"""Attention for one row of the batch at a time."""

import dataclasses
import functools

import gin
import jax

from transformer_zoo import axes
from transformer_zoo.modules.dot_product_attention import Kernel
from transformer_zoo.modules.dot_product_attention import REFERENCE
from transformer_zoo.modules.dot_product_attention import whole_groups

_QUERY = ("batch", "length", "heads", "kv")
_AXES = {
  "mask_B1LM": ("batch", None, "length", None),
  "bias_1HLM": ("batch", "heads", "length", None),
  "keep_BH1M": ("batch", "heads", "length", None),
}


@gin.register
@dataclasses.dataclass(frozen=True)
class RowwiseAttention(Kernel):
  """The reference for one row at a time; serves everything.

  For CPUs: the scores of a row stay in their caches from the first product to
  the second, those of a batch go to memory and back at every step between. The
  backward pass computes them again, which takes no longer than reading them:
  scores of one row are all that is ever there.
  """

  def attend(
    self, query_BLHK, key_BMGK, value_BMGK, mask_B1LM, bias_1HLM, keep_BH1M
  ):
    given = {
      "mask_B1LM": mask_B1LM,
      "bias_1HLM": bias_1HLM,
      "keep_BH1M": keep_BH1M,
    }
    given = {name: x for name, x in given.items() if x is not None}
    key_BMGK, value_BMGK = whole_groups(query_BLHK, key_BMGK, value_BMGK)

    def attend_rows(query_BLHK, key_BMGK, value_BMGK, *others):
      return self._rows(
        (query_BLHK, key_BMGK, value_BMGK),
        dict(zip(given, others, strict=True)),
      )

    return axes.over_mesh(
      attend_rows,
      [query_BLHK, key_BMGK, value_BMGK, *given.values()],
      [_QUERY] * 3 + [_AXES[name] for name in given],
    )

  def _rows(self, arrays, given):
    """Returns [B, L, H, K] of what one device has."""
    shared = {name: x[0] for name, x in given.items() if len(x) == 1}
    of_rows = {name: x for name, x in given.items() if name not in shared}

    # The loop of the map keeps the backward pass from undoing the remat.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def attend_row(row):
      arrays, parts = row
      parts = dict.fromkeys(_AXES) | shared | parts
      return REFERENCE.attend(*arrays, **parts)

    return jax.lax.map(attend_row, (arrays, of_rows))
