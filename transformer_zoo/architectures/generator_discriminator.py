"""A generator that replaces tokens, and a discriminator that finds them.

ELECTRA (Clark et al. 2020): two encoders over the same rows, a small one that
predicts masked tokens and one that classifies each token as of the text or not;
`gin_configs/heads/replaced_tokens.gin` makes the pair of any encoder, and
`gin_configs/parts/generator/` has ways in which both share embeddings, among
them DeBERTa v3's (He et al. 2023, section 3).
"""

from collections.abc import Mapping
import dataclasses

from flax import linen as nn
import gin
import jax

from transformer_zoo.architectures.encoder_only import EncoderOnly
from transformer_zoo.architectures.encoder_only import Heads
from transformer_zoo.architectures.offers import Offers
from transformer_zoo.errors import UserError
from transformer_zoo.modules.embedding import EmbedDifference
from transformer_zoo.modules.embedding import FromOther


@gin.register
class GeneratorDiscriminator(nn.Module):
  """A discriminator, and beside it the generator of its pre-training.

  The parameters of the discriminator lie where an `EncoderOnly` has them, those
  of the generator under `generator`: a run that fine-tunes the discriminator
  leaves the latter out. `hidden` and `logits` are the discriminator's.

  Attributes:
    discriminator: the encoder that is pre-trained. Its token embedder may be an
      `EmbedDifference` from the generator's.
    generator: the encoder that predicts masked tokens by its head `tokens`.
      Without a token embedder of its own its softmax reads the discriminator's
      table, and its layers the discriminator's embeddings: of tokens, segments
      and positions after their norm, as the public code does
      (google-research/electra 8a46635, `modeling.py`), or of tokens alone if it
      has a norm of its own (DeBERTa's embedding sharing).
  """

  discriminator: EncoderOnly
  generator: EncoderOnly

  def __post_init__(self):
    embedders = [
      getattr(part, "token_embedder", None)
      for part in (self.discriminator, self.generator)
    ]
    if isinstance(embedders[0], EmbedDifference) and embedders[1] is None:
      raise UserError(
        "EncoderOnly.token_embedder is @EmbedDifference(), which needs a "
        "generator with embeddings; bind generator/EncoderOnly.token_embedder "
        "= @Embed(), as parts/generator/disentangled_table.gin does"
      )
    encoders = self.discriminator.encoder, self.generator.encoder
    # DeBERTa's positions are in the scores of layers, not in their embeddings.
    if [each.relative_embedder is None for each in encoders] == [False, True]:
      raise UserError(
        "generator/Transformer.relative_embedder is None, but the encoder "
        "knows positions by its relative_embedder alone, so the generator "
        "would know none; choose objectives/deberta_v3.gin, which binds both"
      )
    super().__post_init__()

  def setup(self):
    nn.share_scope(self, self.discriminator)

  @property
  def offers(self) -> Offers:
    """What the discriminator reads and computes; it alone is fine-tuned."""
    fine_tuned = self.discriminator
    if isinstance(fine_tuned.token_embedder, EmbedDifference):
      fine_tuned = fine_tuned.clone(
        token_embedder=self.generator.token_embedder
      )
    return dataclasses.replace(self.discriminator.offers, fine_tuned=fine_tuned)

  @property
  def pad_id(self) -> int:
    """As `EncoderOnly.pad_id`."""
    return self.discriminator.pad_id

  @property
  def heads(self) -> Heads:
    """The discriminator's."""
    return self.discriminator.heads

  @property
  def encoder(self) -> nn.Module:
    """The discriminator's."""
    return self.discriminator.encoder

  @property
  def token_embedder(self) -> nn.Module:
    """The discriminator's."""
    return self.discriminator.token_embedder

  def check_head(self, head: str) -> None:
    """As `EncoderOnly.check_head`, of the discriminator."""
    self.discriminator.check_head(head)

  def hidden(
    self, batch: Mapping[str, jax.Array], *, deterministic: bool = True
  ) -> jax.Array:
    """As `EncoderOnly.hidden`, of the discriminator."""
    return self.discriminator.hidden(
      batch, deterministic=deterministic, embedder=self._embedder
    )

  def logits(
    self, hidden_BLD: jax.Array, head: str = "replaced", **keywords
  ) -> jax.Array:
    """As `EncoderOnly.logits`, of the discriminator."""
    return self.discriminator.logits(
      hidden_BLD, head, embedder=self._embedder, **keywords
    )

  def generator_hidden(
    self, batch: Mapping[str, jax.Array], *, deterministic: bool = True
  ) -> jax.Array:
    """As `EncoderOnly.hidden`, of the generator."""
    generator = self.generator
    if generator.token_embedder is not None:
      return generator.hidden(batch, deterministic=deterministic)
    if generator.encoder.input_norm is not None:
      return generator.hidden(
        batch, deterministic=deterministic, embedder=self.token_embedder
      )
    x_BLE = self.discriminator.embedded(batch)
    return generator.encoded(x_BLE, batch, deterministic=deterministic)

  def generator_logits(
    self, hidden_BLD: jax.Array, head: str = "tokens", **keywords
  ) -> jax.Array:
    """As `EncoderOnly.logits`, of the generator."""
    embedder = self.generator.token_embedder or self.token_embedder
    return self.generator.logits(
      hidden_BLD, head, embedder=embedder, **keywords
    )

  def all_logits(self, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """The logits of the discriminator's heads, and of `generator`."""
    return {
      **self.discriminator.all_logits(batch, self._embedder),
      "generator": self.generator_logits(self.generator_hidden(batch)),
    }

  @property
  def _embedder(self) -> FromOther | None:
    """The embedder of the discriminator's tokens; None for its own."""
    if not isinstance(self.token_embedder, EmbedDifference):
      return None
    return FromOther(self.token_embedder, self.generator.token_embedder)


@gin.register(module="generator_discriminator")
def share_of(whole: int, share: float) -> int:
  """A share of a width, at least 1.

  Args:
    whole: The width of the discriminator.
    share: The share of the generator, an eighth to 1 in Clark et al. 2020,
      section 3.2.
  """
  return max(1, round(whole * share))


@gin.register(module="generator_discriminator")
def whole_parts(whole: int, size: int) -> int:
  """Returns the number of parts of a size in a width, at least 1."""
  return max(1, whole // size)
