"""Outputs of a model for a batch of inputs.

A model that generates offers two methods:

    prefill(inputs_BM, lengths_B, start_id=, decoding=) -> (read_BT, memory)
    decode_step(tokens_BW, *memory, decoding) -> logits [B, W, V]

`prefill` computes the memory of the inputs once for each row; `read_BT[:, -1]`
is the first token that `decode_step` reads. The W outputs of a row are W tokens
of one position to the model (`modules/attention/cache.py`). Prompts of a
language model are padded at their end where they come in and end together
inside, so that distances and biases are the same for all rows. Their last token
is read again by the first step, because the earlier tokens of a prefix language
model see it.
"""

import dataclasses

from flax import linen as nn
import jax
import jax.numpy as jnp

from transformer_zoo.decoding import interface
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.decoding.search import search
from transformer_zoo.modules.attention.cache import Decoding


def generate(
  model: nn.Module,
  params,
  inputs_BM: jax.Array,
  max_length: int,
  example_ids_B: jax.Array | None = None,
  *,
  options: DecodingOptions = GREEDY,
  lengths_B: jax.Array | None = None,
  forced_BF: jax.Array | None = None,
  limits_B: jax.Array | None = None,
  start_id: int = 0,
  eos_id: int = 1,
  pad_id: int = 0,
) -> interface.Outputs:
  """Decodes with a key-value cache.

  What a model has to offer, whether it has an encoder or not:

  - `prefill(inputs_BM, lengths_B, start_id=, decoding=) -> (read_BT, memory)`
    reads the inputs, once for all outputs of a row; `read_BT[:, -1]` is what
    `decode_step` is fed first, `start_id` or the inputs' last token, after what
    the outputs continue (-1 is nothing), and `memory` a tuple of what each step
    gets. It may write into the `cache` collection.
  - `decode_step(tokens_BW, *memory, decoding) -> logits [B, W, V]` reads and
    writes the cache (`modules/attention/cache.py`).

  Args:
    model: an architecture.
    params: The parameters of the model.
    inputs_BM: int32 ids, padded at their end: what an encoder reads, or the
      prompt that a decoder continues.
    max_length: the most tokens to make, unless the options say it.
    example_ids_B: numbers of the examples, which draws depend on.
    options: The options of the search.
    lengths_B: how many ids are a prompt, for prompts that end in what is also
      padding; those up to the last that is no padding unless given.
    forced_BF: ids that each row's outputs begin with, -1 after its last one;
      they cost nothing.
    limits_B: the most tokens of each row, if fewer than `max_length`; one is
      always made.
    start_id: The id that a decoder reads first; T5 starts with padding.
    eos_id: ends an output, as the `end_ids` of the options do.
    pad_id: fills an output after its end.

  Raises:
    UserError: options, prefixes or positions do not fit the lengths.
  """
  options = options.with_length(max_length)
  if forced_BF is not None:
    options.check_prefix(forced_BF.shape[1])
  width = max(options.num_beams, options.num_return)
  decoding = Decoding(
    position=jnp.asarray(0, jnp.int32),
    length=options.max_length,
    width=width,
    # One query a row is a product of a vector with each matrix of keys.
    slots_last=width > 1,
  )
  variables = {"params": params}
  (read_BT, memory), cache = model.apply(
    variables,
    inputs_BM,
    lengths_B,
    start_id=start_id if options.start_before_prompt else None,
    decoding=decoding,
    method=model.prefill,
    mutable=["cache"],
  )

  def step(tokens_BW, parents_BW, position, state):
    cache, ancestors_BWL = state
    if parents_BW is not None:
      ancestors_BWL = _descend(ancestors_BWL, parents_BW, position)
    logits_BWV, cache = model.apply(
      {**variables, **cache},
      tokens_BW,
      *memory,
      dataclasses.replace(
        decoding, position=position, ancestors_BWL=ancestors_BWL
      ),
      method=model.decode_step,
      mutable=["cache"],
    )
    return logits_BWV, (cache, ancestors_BWL)

  ancestors_BWL = None
  if options.num_beams > 1:
    shape = inputs_BM.shape[0], width, options.max_length
    ancestors_BWL = jnp.zeros(shape, jnp.int32)
  return search(
    step,
    (cache, ancestors_BWL),
    read_BT[:, -1],
    options=options,
    example_ids_B=example_ids_B,
    eos_id=eos_id,
    pad_id=pad_id,
    prompt_BP=read_BT[:, :-1] if read_BT.shape[1] != 1 else None,
    forced_BF=forced_BF,
    limits_B=limits_B,
  )


def _descend(ancestors_BWL, parents_BW, position):
  """Whose slots each output reads: its parent's, and its own from now on."""
  ancestors_BWL = interface.take_outputs(ancestors_BWL, parents_BW)
  rows, width = parents_BW.shape
  own_BW = jnp.broadcast_to(jnp.arange(width), (rows, width))
  return jax.lax.dynamic_update_slice_in_dim(
    ancestors_BWL, own_BW[..., None], position, axis=2
  )
