"""Mixtures of experts: feed-forward networks between which a router chooses.

The tokens of a row compete for the places of the experts, whatever the other
rows are: a row counts as it does however a batch is cut over devices or
microbatches. Mesh TensorFlow's groups have about 1,024 tokens, of several rows
if rows are shorter.
"""

from typing import ClassVar

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo import axes
from transformer_zoo.errors import UserError
from transformer_zoo.modules import costs
from transformer_zoo.modules.dropout import keys_of_rows
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.parts import part


class Router(nn.Module):
  """The choice of the experts of each token, in float32.

  Attributes:
    num_experts: The number of experts.
    capacity_factor: The places of all experts together, as a multiple of the
      tokens of a row, in training.
    evaluation_capacity_factor: The same where nothing is trained.
    min_capacity: The least number of places of an expert; with factors of 0 it
      is the number.
    load_balancing: The factor of the balancing loss: experts times the sum of
      products of the share of tokens that an expert is the first choice of and
      the mean of its gate (Fedus et al. 2021, equation 4). Padding counts in
      neither.
    z_loss: The factor of the mean square of the logarithm of the softmax's
      normalizer, which keeps logits small (Zoph et al. 2022, equation 5). In
      Mesh TensorFlow the factor of the balancing loss multiplies it too.
    logits: The projection to a logit for each expert.
  """

  num_experts: int
  capacity_factor: float = 1.25
  evaluation_capacity_factor: float = 2.0
  min_capacity: int = 4
  load_balancing: float = 1e-2
  z_loss: float = 0.0
  logits: nn.Module = part(Linear, kernel_axes=("embed", None))

  def __post_init__(self):
    for name in ("num_experts", "min_capacity"):
      if getattr(self, name) < 1:
        raise UserError(
          f"{type(self).__name__}.{name} is {getattr(self, name)}; it must be "
          "at least 1"
        )
    super().__post_init__()

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    valid_BL: jax.Array,
    *,
    deterministic: bool,
    may_drop: bool = True,
  ) -> jax.Array:
    """Returns the weights [B, L, X, C] of places of experts for tokens.

    Args:
      x_BLD: What the experts read, in any dtype.
      valid_BL: 1 for tokens, 0 for padding, which takes no place.
      deterministic: Whether nothing is trained.
      may_drop: Whether places are limited; otherwise each expert has a place
        for every token.
    """
    x_BLD = self.perturbed(
      x_BLD.astype(jnp.float32), deterministic=deterministic
    )
    logits_BLX = self.logits(x_BLD, self.num_experts)
    gates_BLX = jax.nn.softmax(logits_BLX)
    capacity = self.capacity(
      x_BLD.shape[1], deterministic=deterministic, may_drop=may_drop
    )
    choices = [
      (gate_BL, chosen_BLX * valid_BL[..., None])
      for gate_BL, chosen_BLX in self.choices(gates_BLX, deterministic)
    ]
    weights_BLXC, served_BL = _placed(choices, capacity)
    self._add_costs(
      logits_BLX, gates_BLX, choices[0][1], valid_BL, served_BL, deterministic
    )
    return weights_BLXC

  @nn.nowrap
  def choices(
    self, gates_BLX: jax.Array, deterministic: bool
  ) -> list[tuple[jax.Array, jax.Array]]:
    """The choices of each token: those of earlier ones are served first.

    Args:
      gates_BLX: The softmax over experts.
      deterministic: Whether nothing is trained.

    Returns:
      (weight [B, L], expert [B, L, X], one-hot or 0 for none) of each choice.
    """
    raise NotImplementedError

  @nn.nowrap
  def perturbed(self, x_BLD: jax.Array, *, deterministic: bool) -> jax.Array:
    """What the logits are made of."""
    del deterministic
    return x_BLD

  @nn.nowrap
  def capacity(
    self, length: int, *, deterministic: bool, may_drop: bool
  ) -> int:
    """The places that an expert has for the tokens of a row."""
    if not may_drop:
      return length
    factor = (
      self.evaluation_capacity_factor if deterministic else self.capacity_factor
    )
    asked = int(length * factor / self.num_experts)
    return min(length, max(self.min_capacity, asked))

  @nn.nowrap
  def _add_costs(
    self, logits_BLX, gates_BLX, first_BLX, valid_BL, served_BL, deterministic
  ) -> None:
    count_B = jnp.maximum(jnp.sum(valid_BL, axis=1), 1.0)
    share_BX = jnp.sum(first_BLX, axis=1) / count_B[:, None]
    mean_BX = jnp.einsum("BLX,BL->BX", gates_BLX, valid_BL) / count_B[:, None]
    balance_B = self.num_experts * jnp.sum(share_BX * mean_BX, axis=1)
    dropped_B = jnp.sum(valid_BL * (1.0 - served_BL), axis=1) / count_B
    costs.add(
      self,
      "load_balancing",
      self.load_balancing * balance_B,
      deterministic=deterministic,
      dropped=dropped_B,
    )
    if self.z_loss:
      z_BL = jnp.square(jax.nn.logsumexp(logits_BLX, axis=-1)) * valid_BL
      costs.add(
        self,
        "router_z",
        self.z_loss * jnp.sum(z_BL, axis=1) / count_B,
        deterministic=deterministic,
      )


def _placed(
  choices: list[tuple[jax.Array, jax.Array]], capacity: int
) -> tuple[jax.Array, jax.Array]:
  """Gives tokens places in their order, while an expert has some.

  Args:
    choices: As of `Router.choices`.
    capacity: The number of places of an expert.

  Returns:
    The weight of each place for each token, [B, L, X, C]; 1 for tokens with a
    place, [B, L].
  """
  weights_BLXC = served_BL = 0.0
  taken_BX = jnp.zeros_like(choices[0][1][:, 0])
  for gate_BL, chosen_BLX in choices:
    before_BLX = jnp.cumsum(chosen_BLX, axis=1) - chosen_BLX
    before_BLX += taken_BX[:, None]
    kept_BLX = chosen_BLX * (before_BLX < capacity)
    taken_BX += jnp.sum(kept_BLX, axis=1)
    served_BL = jnp.maximum(served_BL, jnp.sum(kept_BLX, axis=-1))
    place_BL = jnp.sum(before_BLX * chosen_BLX, axis=-1).astype(jnp.int32)
    place_BLC = jax.nn.one_hot(place_BL, capacity, dtype=jnp.float32)
    weights_BLXC += jnp.einsum("BL,BLX,BLC->BLXC", gate_BL, kept_BLX, place_BLC)
  return weights_BLXC, served_BL


@gin.register
class SwitchRouter(Router):
  """Each token goes to its first choice, weighted by the gate.

  Switch Transformer (Fedus et al. 2021, section 2.2).

  Attributes:
    jitter: In training what the router reads is multiplied by a number between
      1 - jitter and 1 + jitter.
  """

  jitter: float = 1e-2

  @nn.nowrap
  def perturbed(self, x_BLD: jax.Array, *, deterministic: bool) -> jax.Array:
    """What the logits are made of; a row has its numbers in any microbatch."""
    if deterministic or not self.jitter:
      return x_BLD
    least, most = 1.0 - self.jitter, 1.0 + self.jitter

    def of_row(key):
      return jax.random.uniform(key, x_BLD.shape[1:], minval=least, maxval=most)

    keys_B = keys_of_rows(self.make_rng("dropout"), x_BLD.shape[0])
    return x_BLD * jax.vmap(of_row)(keys_B)

  @nn.nowrap
  def choices(
    self, gates_BLX: jax.Array, deterministic: bool
  ) -> list[tuple[jax.Array, jax.Array]]:
    """The first choice."""
    del deterministic
    return [_largest(gates_BLX)]


@gin.register
class TopTwoRouter(Router):
  """Each token goes to its first choice, and to the second if it weighs enough.

  Lepikhin et al. 2020 (GShard, algorithm 1), as Mesh TensorFlow has it: the two
  gates are divided by their sum, and first choices of all tokens are served
  before second ones. So a later token may take the place of an earlier one's
  second choice, in a decoder too, where places are few.

  Attributes:
    second_threshold: In training the second expert is taken with the
      probability gate / second_threshold, otherwise if its gate exceeds the
      threshold (Mesh TensorFlow draws there too); 0 always takes it.
  """

  second_threshold: float = 0.2

  @nn.nowrap
  def choices(
    self, gates_BLX: jax.Array, deterministic: bool
  ) -> list[tuple[jax.Array, jax.Array]]:
    """The two choices."""
    first_BL, first_BLX = _largest(gates_BLX)
    second_BL, second_BLX = _largest(gates_BLX * (1.0 - first_BLX))
    both_BL = first_BL + second_BL + 1e-9
    first_BL, second_BL = first_BL / both_BL, second_BL / both_BL
    threshold_BL = self.second_threshold
    if self.second_threshold and not deterministic:
      keys_B = keys_of_rows(self.make_rng("dropout"), first_BL.shape[0])
      length = first_BL.shape[1]
      drawn_BL = jax.vmap(lambda key: jax.random.uniform(key, (length,)))(
        keys_B
      )
      threshold_BL = self.second_threshold * drawn_BL
    second_BLX *= (second_BL > threshold_BL)[..., None]
    return [(first_BL, first_BLX), (second_BL, second_BLX)]


def _largest(gates_BLX: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The largest gate of each token, and which it is, one-hot."""
  chosen_BLX = jax.nn.one_hot(
    jnp.argmax(gates_BLX, axis=-1), gates_BLX.shape[-1], dtype=jnp.float32
  )
  return jnp.max(gates_BLX, axis=-1), chosen_BLX


@gin.register
class Experts(nn.Module):
  """Feed-forward networks of which each token is sent to one, or to a few.

  Tokens without a place get 0. Experts lie over the mesh axis `expert`, if
  there is one, and tokens are exchanged between its devices by all-to-all.

  Attributes:
    expert: A feed-forward network; each expert has parameters of its own, which
      have a leading axis `expert`.
    router: The choice of the experts.
  """

  reads_tokens: ClassVar[bool] = True

  expert: nn.Module
  router: Router

  @nn.compact
  def __call__(
    self,
    x_BLD: jax.Array,
    *,
    deterministic: bool,
    valid_BL: jax.Array | None = None,
    may_drop: bool = True,
  ) -> jax.Array:
    """Returns [B, L, D].

    Args:
      x_BLD: what enters.
      deterministic: no dropout, and the capacity of evaluation.
      valid_BL: True for tokens, False for padding, [1 or B, L]; None if all are
        tokens.
      may_drop: Whether places are limited; while text is written, all tokens
        have one.
    """
    rows_BL = jnp.ones(x_BLD.shape[:2], jnp.float32)
    if valid_BL is not None:
      rows_BL *= valid_BL
    weights_BLXC = self.router(
      x_BLD, rows_BL, deterministic=deterministic, may_drop=may_drop
    ).astype(x_BLD.dtype)
    sent_BLXC = (weights_BLXC != 0).astype(x_BLD.dtype)

    def apply(expert, x_BCD):
      return expert(x_BCD, deterministic=deterministic)

    each = nn.vmap(
      apply,
      variable_axes={"params": 0},
      split_rngs={"params": True, "dropout": True},
      metadata_params={nn.PARTITION_NAME: "expert"},
    )
    x_XBCD = jnp.einsum("BLXC,BLD->XBCD", sent_BLXC, x_BLD)
    x_XBCD = _exchanged(x_XBCD)
    with axes.beside("expert"):
      y_XBCD = each(self.expert, x_XBCD)
    y_XBCD = _exchanged(y_XBCD, back=True)
    return jnp.einsum("XBCD,BLXC->BLD", y_XBCD, weights_BLXC)


@gin.register(module="experts")
def narrowed(mlp: nn.Module, by: int) -> nn.Module:
  """A feed-forward network whose hidden layer is as wide as a share of one's.

  Two experts of half the width cost a token what the network costs it.

  Args:
    mlp: The feed-forward network.
    by: The divisor of its width.
  """
  if by < 1 or mlp.d_ff % by:
    raise UserError(
      f"experts.narrowed.by is {by}; it must divide the width of the "
      f"feed-forward network, {mlp.d_ff}"
    )
  return mlp.clone(d_ff=mlp.d_ff // by)


def _exchanged(x_XBCD: jax.Array, *, back: bool = False) -> jax.Array:
  """Takes tokens from the devices of their rows to those of their experts."""
  layouts = ((None, "batch"), ("expert", "batch"))
  for layout in reversed(layouts) if back else layouts:
    x_XBCD = axes.constrain(x_XBCD, *layout, None, None)
  return x_XBCD
