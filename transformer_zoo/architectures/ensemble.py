"""Several models whose logits are averaged before the softmax.

Raffel et al. 2020, section 3.6: members that were trained by themselves, or
fine-tuned from one pre-trained model. They may have other sizes and parts, but
one vocabulary, and they read the same batches. Their parameters are
`members_0`, `members_1`, ...; the logits of the members are computed one after
another and not stacked, so the members may differ in size.
"""

from collections.abc import Iterable, Mapping
import dataclasses

from flax import linen as nn
import jax
import jax.numpy as jnp

from transformer_zoo.architectures.offers import Offers
from transformer_zoo.modules.attention import cache


class Ensemble(nn.Module):
  """A model that scores and generates with the mean logits of its members.

  Every member has a cache of its own; the beams of all of them are the same.
  Its hidden states are a tuple, an entry for each member.

  Attributes:
    members: encoder-decoder models, decoder-only ones, or encoders; the
      parameters of the first are under `members_0`. Take `of` to make them.
  """

  members: tuple[nn.Module, ...]

  @classmethod
  def of(cls, models: Iterable[nn.Module]) -> "Ensemble":
    """An ensemble of models, which may be the same several times."""
    # A part that stood in two of them would have one set of parameters.
    return cls(tuple(model.clone(_deep_clone=True) for model in models))

  @property
  def pad_id(self) -> int:
    """The token that is padding."""
    return self.members[0].pad_id

  @property
  def offers(self) -> Offers:
    """What the first member reads and computes, and all members."""
    every = [member.offers for member in self.members]
    directions = {each.direction for each in every}
    return dataclasses.replace(
      every[0],
      direction=directions.pop() if len(directions) == 1 else None,
      members=self.members,
    )

  def hidden(
    self, batch: Mapping[str, jax.Array], *, deterministic: bool = True
  ) -> tuple[jax.Array, ...]:
    """The hidden states [B, L, D] of each member."""
    return tuple(
      member.hidden(batch, deterministic=deterministic)
      for member in self.members
    )

  def logits(
    self, hidden: tuple[jax.Array, ...], *arguments, **keywords
  ) -> jax.Array:
    """Float32 logits [B, L, V] of the members' hidden states.

    Args:
      hidden: The hidden states of each member.
      *arguments: Further arguments of the `logits` of each member.
      **keywords: Further keyword arguments of it.
    """
    pairs = zip(self.members, hidden, strict=True)
    return _mean(
      [member.logits(x_BLD, *arguments, **keywords) for member, x_BLD in pairs]
    )

  def check_head(self, head: str) -> None:
    """Raises UserError if an encoder among the members lacks a head."""
    for member in self.members:
      member.check_head(head)

  def all_logits(self, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """The teacher-forced logits of every head, here of `tokens` alone."""
    return {"tokens": self.logits(self.hidden(batch))}

  def prefill(
    self,
    inputs_BM: jax.Array,
    lengths_B: jax.Array | None = None,
    *,
    start_id: int | None,
    decoding: cache.Decoding,
  ) -> tuple[jax.Array, tuple]:
    """Reads the inputs with every member; see `generate`.

    Returns:
      What was read, and what every step is given: each member's own.
    """
    found = [
      member.prefill(inputs_BM, lengths_B, start_id=start_id, decoding=decoding)
      for member in self.members
    ]
    read_BT = found[0][0]
    return read_BT, (tuple(memory for _, memory in found),)

  def decode_step(
    self, tokens_BW: jax.Array, memories: tuple, decoding: cache.Decoding
  ) -> jax.Array:
    """Logits [B, W, V] of the next token."""
    pairs = zip(self.members, memories, strict=True)
    return _mean(
      [
        member.decode_step(tokens_BW, *memory, decoding)
        for member, memory in pairs
      ]
    )


def _mean(logits: list[jax.Array]) -> jax.Array:
  return jnp.mean(jnp.stack(logits), axis=0)
