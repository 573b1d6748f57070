"""Outputs of an encoder-decoder for a batch of inputs."""

from flax import linen as nn
import jax

from transformer_zoo.decoding import search
from transformer_zoo.modules.kv_cache import Decoding


def generate(
  model: nn.Module,
  params,
  encoder_input_tokens: jax.Array,
  max_length: int,
  eos_id: int = 1,
) -> jax.Array:
  """Decodes greedily with a key-value cache.

  The inputs are encoded once, and so are their keys and values for each
  decoder layer.

  Args:
    model: an encoder-decoder.
    params: its parameters.
    encoder_input_tokens: int32 ids [B, M].
    max_length: the most tokens to make.
    eos_id: ends an output.

  Returns:
    int32 ids [B, max_length], padded after EOS.
  """
  variables = {"params": params}
  encoded_BMD = model.apply(
    variables, encoder_input_tokens, method=model.encode
  )

  def next_logits(tokens_B1, position, cache):
    given = variables if cache is None else {**variables, "cache": cache}
    logits_B1V, changed = model.apply(
      given,
      tokens_B1,
      encoded_BMD,
      encoder_input_tokens,
      Decoding(position=position, length=max_length),
      method=model.decode_step,
      mutable=["cache"],
    )
    return logits_B1V[:, 0], changed["cache"]

  return search.greedy(
    next_logits,
    batch_size=encoder_input_tokens.shape[0],
    max_length=max_length,
    eos_id=eos_id,
  )
