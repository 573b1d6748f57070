"""Attention for a few rows of the batch at a time."""

import dataclasses
import functools

import gin
import jax

from transformer_zoo import axes
from transformer_zoo.modules.attention.dot_product import Kernel
from transformer_zoo.modules.attention.dot_product import REFERENCE
from transformer_zoo.modules.attention.dot_product import whole_groups

# Lengths are whole on every device, whatever the rules say of them elsewhere: a
# query needs all keys, and its row of the mask has to lie where it does.
_QUERY = ("batch", None, "heads", "kv")
_AXES = {
  "mask_B1LM": ("batch", None, None, None),
  "bias_1HLM": ("batch", "heads", None, None),
  "keep_BH1M": ("batch", "heads", None, None),
}


@gin.register
@dataclasses.dataclass(frozen=True)
class RowwiseAttention(Kernel):
  """The reference for a few rows at a time; serves everything.

  For CPUs: the scores of a few rows stay in their caches from the first product
  to the second, those of a batch go to memory and back at every step between.
  The backward pass computes them again, which takes no longer than reading
  them: scores of these rows are all that is ever there.

  Attributes:
    group_bytes: The limit of bytes of float32 scores that are computed at a
      time. The rows of a group divide the batch; a group has one row where a
      row has more.
  """

  group_bytes: int = 2**20

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
    size = self._group_size(*arrays[:2])
    # One row has no axis for rows: XLA's products over one are slower.
    group = (size,) if size > 1 else ()
    shared = {
      name: x if group else x[0] for name, x in given.items() if len(x) == 1
    }
    of_rows = {name: x for name, x in given.items() if name not in shared}
    groups = jax.tree.map(
      lambda x: x.reshape(-1, *group, *x.shape[1:]), (arrays, of_rows)
    )

    # The loop of the map keeps the backward pass from undoing the remat.
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def attend_group(group):
      arrays, parts = group
      parts = dict.fromkeys(_AXES) | shared | parts
      return REFERENCE.attend(*arrays, **parts)

    return jax.lax.map(attend_group, groups).reshape(arrays[0].shape)

  def _group_size(self, query_BLHK, key_BMHK):
    rows, length, heads, _ = query_BLHK.shape
    row_bytes = 4 * heads * length * key_BMHK.shape[1]
    most = max(1, self.group_bytes // row_bytes)
    return max(n for n in range(1, min(most, rows) + 1) if rows % n == 0)
