"""Replaced tokens: a generator's guesses, and what finds them.

The generator predicts masked tokens; a sample of what it predicts takes their
place, and the discriminator reads the result. Both learn in one step (Clark et
al. 2020, section 2; google-research/electra 8a46635 `run_pretraining.py`).
"""

from collections.abc import Callable, Sequence
import dataclasses
import functools
import math

from flax import linen as nn
import gin
import jax
import jax.numpy as jnp

from transformer_zoo.errors import UserError
from transformer_zoo.modules import dropout
from transformer_zoo.objectives import encoder
from transformer_zoo.objectives import losses as losses_lib
from transformer_zoo.objectives.encoder import Batch
from transformer_zoo.objectives.encoder import EncoderLoss
from transformer_zoo.objectives.encoder import Logits
from transformer_zoo.objectives.interface import Objective
from transformer_zoo.objectives.terms import Term


@gin.register
@dataclasses.dataclass(frozen=True)
class ReplacedTokens(Objective):
  """The generator's loss, and losses of the discriminator on what it makes.

  No gradient goes through the samples.

  Attributes:
    losses: The losses of the discriminator's heads. Their batch has the
      sampled tokens as `encoder_input_tokens`, and as `encoder_replaced` [B, L]
      whether a token differs from the token of the text; a sampled token that
      equals the token of the text is not replaced.
    generator_loss: The loss of the generator's head, of the places that are
      predicted; its term is `generator`.
    generator_first: Whether the discriminator reads the parameters of the
      generator after their update of the step, as a table of embeddings of
      which it learns the difference (`RTDTask` of microsoft/DeBERTa 4d7fe0b),
      and not before it.
  """

  losses: Sequence[EncoderLoss]
  generator_loss: EncoderLoss = encoder.MaskedTokenLoss()
  generator_first: bool = False

  @property
  def takes_updates(self) -> bool:
    """Whether `__call__` takes `updated` in training."""
    return self.generator_first

  def check(self, model: nn.Module) -> None:
    """Raises UserError for a model without a generator or a head."""
    if model.offers.fine_tuned is None:
      raise UserError(
        f"train.objective is @ReplacedTokens(), but {type(model).__name__} has "
        "no generator; include heads/replaced_tokens.gin, which binds MODEL = "
        "@GeneratorDiscriminator(), after the file of the run"
      )
    for each in self.losses:
      model.check_head(each.head)
    model.generator.check_head(self.generator_loss.head)

  def __call__(
    self,
    model: nn.Module,
    params,
    batch: Batch,
    dropout_key: jax.Array | None = None,
    *,
    updated: Callable | None = None,
  ) -> dict[str, Term]:
    """The terms of one batch.

    Args:
      model: a `GeneratorDiscriminator`.
      params: The parameters of the model.
      batch: what the converter `Encoder` lays out, with masked tokens.
      dropout_key: The key for dropout and for the samples; None for no dropout,
        and samples that are the same in every batch.
      updated: The function from gradients to the parameters after an update by
        them; read if `generator_first`. If None, the discriminator reads the
        generator as it is.

    Returns:
      `generator`, and a term for each of the other losses by its head.
    """
    key = jax.random.key(0) if dropout_key is None else dropout_key
    sample_key, generator_key, key = jax.random.split(key, 3)

    def apply(params, *arguments, key, **keywords):
      rngs = None if dropout_key is None else {"dropout": key}
      return model.apply(
        {"params": params},
        *arguments,
        rngs=rngs,
        deterministic=rngs is None,
        **keywords,
      )

    real_BL = batch["encoder_input_tokens"] != model.pad_id
    batch = {**batch, "encoder_real": real_BL}

    def generate(params):
      of_generator = functools.partial(apply, params, key=generator_key)
      logits_BPV = of_generator(
        of_generator(batch, method="generator_hidden"),
        self.generator_loss.head,
        places_BP=batch["encoder_predicted_places"],
        method="generator_logits",
      )
      term = self.generator_loss(lambda head, places: logits_BPV, batch)
      return term, logits_BPV

    if self.generator_first and updated is not None:
      term, logits_BPV, later = _generator_step(generate, params, updated)
      params = {**params, "generator": later["generator"]}
    else:
      term, logits_BPV = generate(params)
    of_discriminator = functools.partial(apply, params, key=key)
    batch = replaced(batch, sampled(sample_key, logits_BPV))
    # Its losses may read a mask decoder's output of any place.
    anywhere = {
      name: x for name, x in batch.items() if name != "encoder_predicted_places"
    }
    hidden_BLD = of_discriminator(anywhere, method="hidden")

    def logits(head, places_BP, **inputs):
      return of_discriminator(
        hidden_BLD, head, places_BP=places_BP, method="logits", **inputs
      )

    losses = {each.head: each(logits, batch) for each in self.losses}
    return {"generator": term, **losses}


def _generator_step(generate, params, updated):
  """The generator's term, its logits, and the parameters after its update.

  The update uses the gradient of the term, which is computed with it: nothing
  goes through the generator again.
  """

  def total_of(params):
    term, logits_BPV = generate(params)
    return term.total, (term, logits_BPV)

  # Without a derivative of the gradient, which nothing reads.
  fixed = jax.lax.stop_gradient(params)
  gradients, (term, logits_BPV) = jax.grad(total_of, has_aux=True)(fixed)
  factor = term.scale / term.divisor
  later = updated(jax.tree.map(lambda g: g * factor, gradients))
  total = _with_gradients(params, term.total, gradients)
  return term.replace(total=total), logits_BPV, later


@jax.custom_vjp
def _with_gradients(params, total, gradients):
  """The total, whose gradients of the parameters are these."""
  del params, gradients
  return total


def _keep_gradients(params, total, gradients):
  del params
  return total, gradients


def _scale_gradients(gradients, cotangent):
  return jax.tree.map(lambda g: g * cotangent, gradients), None, None


_with_gradients.defvjp(_keep_gradients, _scale_gradients)


def sampled(key: jax.Array, logits_BPV: jax.Array) -> jax.Array:
  """A token for each place, by the softmax of its logits, int32 [B, P].

  The largest logit with Gumbel noise; no gradient. Of all tokens of a block the
  largest noisy logit is their log-sum-exp with one draw of noise (Maddison et
  al. 2014, section 2), so that a block is drawn, and then a token of it: about
  2 sqrt(V) draws a place and not V, which would take longer than the generator.
  """
  logits_BPV = jax.lax.stop_gradient(logits_BPV)
  vocab_size = logits_BPV.shape[-1]
  size = math.isqrt(vocab_size - 1) + 1
  missing = -vocab_size % size
  logits_BPV = jnp.pad(
    logits_BPV, ((0, 0), (0, 0), (0, missing)), constant_values=-jnp.inf
  )
  of_blocks_BPXV = logits_BPV.reshape(*logits_BPV.shape[:2], -1, size)
  keys_B = dropout.keys_of_rows(key, len(logits_BPV))

  def drawn(logits_BPX, number):
    noise_BPX = jax.vmap(
      lambda key: jax.random.gumbel(
        jax.random.fold_in(key, number), logits_BPX.shape[1:]
      )
    )(keys_B)
    return jnp.argmax(logits_BPX + noise_BPX, axis=-1)

  block_BP = drawn(jax.nn.logsumexp(of_blocks_BPXV, axis=-1), 0)
  of_block_BP1V = jnp.take_along_axis(
    of_blocks_BPXV, block_BP[..., None, None], axis=2
  )
  place_BP = drawn(of_block_BP1V[:, :, 0], 1)
  return (block_BP * size + place_BP).astype(jnp.int32)


def replaced(batch: Batch, tokens_BP: jax.Array) -> dict[str, jax.Array]:
  """The batch with tokens in the places that are predicted.

  Args:
    batch: what the converter `Encoder` lays out.
    tokens_BP: A token for each of `encoder_predicted_places`; places without a
      weight are passed over.

  Returns:
    The batch with other `encoder_input_tokens`, the tokens of the text as
    `encoder_original_tokens`, and `encoder_replaced`.
  """
  places_BP = batch["encoder_predicted_places"]
  weights_BL = batch["encoder_loss_weights"] > 0
  original_BL = jnp.where(
    weights_BL, batch["encoder_target_tokens"], batch["encoder_input_tokens"]
  )
  put = jax.vmap(lambda row, places, tokens: row.at[places].set(tokens))
  inputs_BL = jnp.where(
    weights_BL,
    put(original_BL, places_BP, tokens_BP.astype(original_BL.dtype)),
    original_BL,
  )
  return {
    **batch,
    "encoder_input_tokens": inputs_BL,
    "encoder_original_tokens": original_BL,
    "encoder_replaced": inputs_BL != original_BL,
  }


@gin.register
@dataclasses.dataclass(frozen=True)
class ReplacedTokenLoss:
  """Cross-entropy of whether each token was replaced (Clark et al. 2020).

  Attributes:
    scale: lambda of section 2; 50 there.
    predicted_only: Whether only the places that the generator predicts count,
      "ELECTRA 15%" of section 3.4, and not all.
  """

  head: str = "replaced"
  scale: float = 50.0
  predicted_only: bool = False

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """As `EncoderLoss.__call__`."""
    inputs = {}
    if "encoder_positions" in batch:
      positions_BL = batch["encoder_positions"]
      places_1L = jnp.arange(positions_BL.shape[1])[None]
      inputs["firsts_BP"] = places_1L - positions_BL
    logits_BL = logits(self.head, None, **inputs)[..., 0]
    replaced_BL = batch["encoder_replaced"]
    weights_BL = batch["encoder_real"]
    if self.predicted_only:
      weights_BL &= batch["encoder_loss_weights"] > 0
    weights_BL = weights_BL.astype(jnp.float32)
    nll_BL = jax.nn.softplus(jnp.where(replaced_BL, -logits_BL, logits_BL))
    correct_BL = (logits_BL > 0) == replaced_BL
    total = jnp.sum(nll_BL * weights_BL)
    metrics = {
      "loss_sum": total,
      "correct_sum": jnp.sum(correct_BL * weights_BL),
    }
    return Term(total, jnp.sum(weights_BL), metrics, scale=self.scale)


@gin.register
@dataclasses.dataclass(frozen=True)
class AllTokensLoss:
  """Cross-entropy of every token of the text ("All-Tokens MLM").

  A token is copied with a probability of its own, and is otherwise drawn from
  the softmax (Clark et al. 2020, section 3.4).

  Attributes:
    copy_head: The head of the chance that a token is copied.
    logits_chunk: The approximate number of tokens of which a device has logits
      at a time.
  """

  head: str = "tokens"
  scale: float = 1.0
  copy_head: str = "copied"
  logits_chunk: int = 2048

  def __call__(self, logits: Logits, batch: Batch) -> Term:
    """As `EncoderLoss.__call__`."""
    targets_BL = batch["encoder_original_tokens"]
    places_1L = jnp.arange(targets_BL.shape[1])[None]
    places_BL = jnp.broadcast_to(places_1L, targets_BL.shape)
    found = losses_lib.token_losses(
      lambda places_Bl: logits(self.head, places_Bl),
      places_BL,
      targets_BL,
      z_loss=0.0,
      tokens=self.logits_chunk,
    )
    copies_BL = logits(self.copy_head, None)[..., 0]
    by_softmax_BL = -jax.nn.softplus(copies_BL) - found.nll_BL
    likelihood_BL = jnp.where(
      batch["encoder_replaced"],
      by_softmax_BL,
      jnp.logaddexp(-jax.nn.softplus(-copies_BL), by_softmax_BL),
    )
    weights_BL = batch["encoder_real"].astype(jnp.float32)
    total = -jnp.sum(likelihood_BL * weights_BL)
    is_right_BL = jnp.where(
      copies_BL > 0, ~batch["encoder_replaced"], found.correct_BL > 0
    )
    metrics = {
      "loss_sum": total,
      "correct_sum": jnp.sum(is_right_BL * weights_BL),
    }
    return Term(total, jnp.sum(weights_BL), metrics, scale=self.scale)


def example_sums(
  model: nn.Module, params, batch: Batch
) -> dict[str, jax.Array]:
  """As `encoder.example_sums`, of the generator's masked tokens."""
  return encoder.example_sums(
    model,
    params,
    batch,
    hidden="generator_hidden",
    logits="generator_logits",
  )
