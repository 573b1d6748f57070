"""LoRA and DoRA: updates of low rank in projections.

- LoRA (Hu et al. 2022): x W + scale * (dropout(x) A) B. A is drawn as in the
  authors' code (`loralib/layers.py`), B is 0.
- rsLoRA (Kalajdzievski 2023): the same with alpha / sqrt(rank) as scale.
- DoRA (Liu et al. 2024): the columns of W + scale * A B in trained lengths.
"""

from collections.abc import Callable, Mapping
from typing import Any

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp
import numpy as np

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules.dropout import Dropout
from transformer_zoo.modules.linear import as_row
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.linear import project
from transformer_zoo.peft import exchange
from transformer_zoo.peft import substitution
from transformer_zoo.peft.method import Method
from transformer_zoo.peft.method import Rule
from transformer_zoo.peft.rounded import Rounded
from transformer_zoo.peft.substitution import Substitute

# PyTorch's kaiming_uniform with a = sqrt(5): U(-1/sqrt(in), 1/sqrt(in)).
_A_INIT = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")
_NO_DROPOUT = Dropout()


@gin.register(module="lora_scales")
def by_rank(alpha: float, rank: int) -> float:
  """alpha / rank (Hu et al. 2022, section 4.1)."""
  return alpha / rank


@gin.register(module="lora_scales")
def by_root_of_rank(alpha: float, rank: int) -> float:
  """alpha / sqrt(rank), rsLoRA (Kalajdzievski 2023)."""
  return alpha / rank**0.5


class Lora(Substitute, nn.Module, kw_only=True):
  """A projection and an update of low rank.

  Attributes:
    rank: R, the width between the two added matrices.
    scale: The factor of the update.
    dropout: applied to what enters the update, wherever the caller gives keys
      for dropout.
  """

  rank: int
  scale: float
  dropout: nn.Module

  @nn.compact
  def __call__(self, x: jax.Array, features: int) -> jax.Array:
    """Maps [..., in] to [..., features]."""
    y = super().__call__(x, features)
    a, b = self._matrices(x.shape[-1], features)
    return y + self.scale * self._update(x, a, b)

  def _matrices(self, width: int, features: int) -> tuple[jax.Array, jax.Array]:
    """The added matrices, float32 [in, R] and [R, out]."""
    if self.rank > min(width, features):
      raise UserError(
        f"the rank {self.rank} of lora is above the width of "
        f"{'/'.join(self.path)}, a matrix of {width} by {features}; choose "
        f"LORA_RANK of at most {min(width, features)}"
      )
    before, after = self.kernel_axes
    return (
      self.param(
        "lora_a",
        axes.partitioned(_A_INIT, before, "lora_rank"),
        (width, self.rank),
        jnp.float32,
      ),
      self.param(
        "lora_b",
        axes.partitioned(nn.initializers.zeros, "lora_rank", after),
        (self.rank, features),
        jnp.float32,
      ),
    )

  def _update(self, x: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    x = self.dropout(x, deterministic=not self.has_rng("dropout"))
    return project(project(x, a.astype(x.dtype)), b.astype(x.dtype))

  @nn.nowrap
  def merge(
    self, leaves: Mapping[str, Any]
  ) -> tuple[nn.Module, dict[str, Any]]:
    """As `Substitute.merge`: W + scale * A B."""
    leaves = dict(leaves)
    update = np.matmul(leaves.pop("lora_a"), leaves.pop("lora_b"))
    leaves["kernel"] = leaves["kernel"] + np.float32(self.scale) * update
    return substitution.unextended(self), leaves

  @nn.nowrap
  def unmerge(
    self, leaves: Mapping[str, Any], added: Mapping[str, Any]
  ) -> dict[str, Any]:
    """Takes an update out of a projection; `merge` up to rounding.

    Args:
      leaves: The parameters that `merge` has returned.
      added: `lora_a` and `lora_b`.
    """
    update = np.float32(self.scale) * np.matmul(
      added["lora_a"], added["lora_b"]
    )
    return {**leaves, **added, "kernel": leaves["kernel"] - update}


class Dora(Lora, kw_only=True):
  """A projection whose columns have trained lengths and a LoRA as direction.

  The length of a column is `dora_scale` times the length of the column of W, so
  that training begins at the lengths of any checkpoint; the paper trains the
  product. Gradients take the length of the changed column for a constant (Liu
  et al. 2024, section 4.3).
  """

  @nn.compact
  def __call__(self, x: jax.Array, features: int) -> jax.Array:
    """Maps [..., in] to [..., features]."""
    y = super(Lora, self).__call__(x, features)
    a, b = self._matrices(x.shape[-1], features)
    scale_F = self.param(
      "dora_scale",
      axes.partitioned(nn.initializers.ones, self.kernel_axes[-1]),
      (features,),
      jnp.float32,
    )
    kernel = self.whole_kernel()
    factor_F = scale_F * jax.lax.stop_gradient(
      _column_lengths(kernel) / _column_lengths(kernel + self.scale * (a @ b))
    )
    factor = as_row(factor_F, y)
    linear = y
    if self.use_bias:
      bias_F = nn.unbox(self.get_variable("params", "bias"))
      linear = y - as_row(bias_F, y)
    # Written as what is added, which is exactly 0 before training.
    update = self.scale * self._update(x, a, b)
    return y + (factor - 1) * linear + factor * update

  @nn.nowrap
  def merge(
    self, leaves: Mapping[str, Any]
  ) -> tuple[nn.Module, dict[str, Any]]:
    """As `Substitute.merge`."""
    leaves = dict(leaves)
    lengths_F = _column_lengths(leaves["kernel"], np)
    factor_F = leaves.pop("dora_scale") * lengths_F
    part, leaves = super().merge(leaves)
    factor_F = factor_F / _column_lengths(leaves["kernel"], np)
    leaves["kernel"] = leaves["kernel"] * factor_F[..., None, :]
    return part, leaves

  @nn.nowrap
  def unmerge(
    self, leaves: Mapping[str, Any], added: Mapping[str, Any]
  ) -> dict[str, Any]:
    """Raises UserError: the lengths of the columns before are lost."""
    raise UserError(
      "DoRA cannot be unmerged: the lengths of the base's columns are not in "
      "the merged parameters; keep the base"
    )


def _read(directory: exchange.Directory) -> exchange.Imported:
  """Reads a LoRA or DoRA of `peft`; places of one matrix share its A."""
  settings = directory.settings
  rank, alpha = settings["r"], settings["lora_alpha"]
  rate, is_dora = settings.get("lora_dropout") or 0.0, settings.get("use_dora")
  if not 0 <= rate < 1:
    raise UserError(
      f"{directory.name} has lora_dropout = {rate!r} in {exchange.CONFIG}, "
      "where a share below 1 belongs"
    )
  found = {}
  for module in directory.modules:
    width, widths = directory.widths(module)
    total, cuts = sum(widths), np.cumsum(widths)[:-1]
    a = directory.take(f"{module.name}.lora_A.weight", [(rank, width)])
    if a is None:
      continue
    b = directory.require(f"{module.name}.lora_B.weight", [(total, rank)])
    for place, part in zip(
      module.places, np.split(b.T, cuts, axis=-1), strict=True
    ):
      found[f"{place}/lora_a"] = a.T
      found[f"{place}/lora_b"] = part
    if is_dora:
      lengths = directory.require(
        f"{module.name}.lora_magnitude_vector",
        [(total,), (1, total), (total, 1)],
      )
      for place, part in zip(
        module.places, np.split(lengths.ravel(), cuts), strict=True
      ):
        kernel = directory.base[f"{place}/kernel"].read().astype(np.float32)
        found[f"{place}/dora_scale"] = part / _column_lengths(kernel, np)

  def unchanged(width: int, features: int) -> dict[str, np.ndarray]:
    added = {
      "lora_a": np.zeros((width, rank), np.float32),
      "lora_b": np.zeros((rank, features), np.float32),
      "dora_scale": np.ones(features, np.float32),
    }
    return added if is_dora else {n: added[n] for n in ("lora_a", "lora_b")}

  ends = [name.partition("/lora_a") for name in found]
  names = exchange.names_of(place for place, end, _ in ends if end)
  directory.fill(found, names, unchanged)
  return exchange.Imported(
    f"peft/{'dora' if is_dora else 'lora'}.gin",
    {
      "LORA_PROJECTIONS": exchange.expression_of(names),
      "LORA_RANK": rank,
      "LORA_ALPHA": float(
        alpha * rank**0.5 if settings.get("use_rslora") else alpha
      ),
      "LORA_DROPOUT": float(rate),
    },
    found,
  )


def _write(trained: exchange.Trained) -> exchange.Written:
  """Writes a directory of `peft`; places of one matrix add up their ranks."""
  parts = substitution.named_parts(trained.model)
  first = next(part for _, part in parts if isinstance(part, Lora))
  is_dora = isinstance(first, Dora)
  tensors, matrices = {}, {}
  for module in trained.modules:
    has = [f"{place}/lora_a" in trained for place in module.places]
    if not any(has):
      continue
    matrices[module.name] = _joined(trained, module, has)
    if is_dora:
      tensors[f"{module.name}.lora_magnitude_vector"] = np.concatenate(
        [
          _column_lengths(trained[f"{place}/kernel"], np)
          * (trained[f"{place}/dora_scale"] if there else 1)
          for place, there in zip(module.places, has, strict=True)
        ]
      )
  rank = max(len(b) for _, b in matrices.values())
  for name, (a, b) in matrices.items():  # All of one rank, by zeros.
    more = rank - len(b)
    tensors[f"{name}.lora_A.weight"] = np.pad(a, ((0, 0), (0, more))).T
    tensors[f"{name}.lora_B.weight"] = np.pad(b, ((0, more), (0, 0))).T
  return {
    "r": rank,
    "lora_alpha": first.scale * rank,
    "target_modules": sorted(matrices),
    "lora_dropout": first.dropout.rate,
    "use_dora": is_dora,
    "use_rslora": False,
    "fan_in_fan_out": trained.is_fused,
    "bias": "none",
  }, tensors


def _joined(
  trained: exchange.Trained, module: exchange.Module, has: list[bool]
) -> tuple[np.ndarray, np.ndarray]:
  """The two matrices of a module, of those at its places."""
  of_each = [
    (trained[f"{place}/lora_a"], trained[f"{place}/lora_b"])
    for place, there in zip(module.places, has, strict=True)
    if there
  ]
  first, _ = of_each[0]
  is_shared = all(np.array_equal(a, first) for a, _ in of_each)
  matrices = [first] if is_shared else [a for a, _ in of_each]
  rank = sum(a.shape[1] for a in matrices)
  columns, begin = [], 0
  for place, there in zip(module.places, has, strict=True):
    block = np.zeros((rank, trained.output_width(place)), np.float32)
    if there:
      b = trained[f"{place}/lora_b"]
      block[begin : begin + len(b)] = b
      begin += 0 if is_shared else len(b)
    columns.append(block)
  return np.concatenate(matrices, axis=1), np.concatenate(columns, axis=1)


_PEFT = exchange.Exchange(
  library=exchange.PEFT,
  kind="LORA",
  read=_read,
  write=_write,
  sizes=("r", "lora_alpha"),
  values={
    "bias": ("none",),
    "layer_replication": (None,),
    "use_qalora": (False, None),
    "lora_bias": (False, None),
    "trainable_token_indices": (None,),
    "target_parameters": (None, []),
    # The others (PiSSA, OLoRA, CorDA, LoftQ) change the matrices of the base.
    "init_lora_weights": (True, False, None, "gaussian", "orthogonal", "eva"),
    "loftq_config": (None, {}),
    "use_rslora": (True, False, None),
    "use_dora": (True, False, None),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
  },
  others="lora_dropout|megatron_config|megatron_core|qalora_group_size"
  "|velora_config|eva_config|corda_config|lora_ga_config|ensure_weight_tying",
)
# Either one, so that `peft/dora.gin` may stand on `peft/lora.gin`.
_ADDS = r".*/(lora_[ab]|dora_scale)"
LORA = Method(name="lora", parts=(Lora,), adds=_ADDS, exchanges=(_PEFT,))
DORA = Method(name="dora", parts=(Dora,), adds=_ADDS, exchanges=(_PEFT,))


@gin.register
def lora(
  projections: str,
  rank: int = 8,
  alpha: float = 8.0,
  scale: Callable[[float, int], float] = by_rank,
  dropout: nn.Module = _NO_DROPOUT,
) -> Rule:
  """Adds an update of low rank to projections.

  Args:
    projections: A regular expression that matches their whole names, such as
      `encoder/layers/attention/query`.
    rank: The rank of the update.
    alpha: The numerator of its scale.
    scale: The scale of the update, a function of alpha and rank.
    dropout: applied to what enters the update.
  """
  extend = _low_rank(Lora, rank, alpha, scale, dropout)

  @LORA.rule(projections, kind=Linear)
  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    return extend(part)

  return rule


@gin.register
def dora(
  projections: str,
  rank: int = 8,
  alpha: float = 8.0,
  scale: Callable[[float, int], float] = by_rank,
  dropout: nn.Module = _NO_DROPOUT,
) -> Rule:
  """Adds an update of low rank and trained lengths of columns to projections.

  Args:
    projections: As for `lora`, with all that follows.
    rank: The rank of the update.
    alpha: The numerator of its scale.
    scale: The scale of the update, a function of alpha and rank.
    dropout: applied to what enters the update.
  """
  extend = _low_rank(Dora, rank, alpha, scale, dropout)

  @DORA.rule(projections, kind=Linear)
  def rule(name: str, part: nn.Module) -> nn.Module:
    if isinstance(part, Substitute) and type(part).__bases__[0] is not Rounded:
      raise UserError(
        f"dora: {name!r} is a {type(part).__name__} already, and lengths of "
        "columns belong to the kernel alone; name @dora() before the other "
        "methods of a projection"
      )
    return extend(part)

  return rule


def _low_rank(
  kind: type[Lora],
  rank: int,
  alpha: float,
  scale: Callable[[float, int], float],
  dropout: nn.Module,
) -> Callable[[nn.Module], nn.Module]:
  """Returns the function that extends a projection."""
  if rank < 1:
    raise UserError(f"lora.rank is {rank}; a rank is at least 1")
  added = {"rank": rank, "scale": scale(alpha, rank)}
  return lambda part: substitution.extended(
    part, kind, **added, dropout=dropout.copy()
  )


def _column_lengths(kernel, numpy=jnp):
  """The lengths of the columns of [..., in, out], [..., out]."""
  return numpy.sqrt(numpy.sum(kernel * kernel, axis=-2))
