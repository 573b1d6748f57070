"""Our architectures as the `module` of T5X's models.

T5X's `EncoderDecoderModel` and `DecoderOnlyModel` (T5X `models.py`) reach a
network by `init` and `apply`. They want parameters without boxes and their axes
in a collection of their own, and hand the `cache` collection to decoding
functions that expand and gather its rows. What is here takes their calls to one
of our models and its variables to theirs, by the names and shapes of T5X's own
networks (`examples/t5`, `examples/decoder_only`).

    models.EncoderDecoderModel.module = @t5x_bridge.T5XEncoderDecoder()
    t5x_bridge.T5XEncoderDecoder.model = @t5x_bridge.architecture()
    t5x_bridge.architecture.gin_files = [
        'architectures/t5_1_1.gin', 'sizes/t5_1_1_small.gin']
"""

from collections.abc import Sequence

from flax import linen as nn
import jax
import jax.numpy as jnp

from transformer_zoo import config
from transformer_zoo.config import registry
from transformer_zoo.interop.t5x.variables import Bridge
from transformer_zoo.modules.attention import cache as kv_cache
from transformer_zoo.modules.attention import masks


def architecture(
  gin_files: Sequence[str],
  bindings: Sequence[str] = (),
  dropout_rate: float | None = None,
) -> nn.Module:
  """Builds a model of our gin files inside of a program that uses gin too.

  Args:
    gin_files: The gin files, in order: 'architectures/t5_1_1.gin',
      'sizes/tiny.gin'.
    bindings: The bindings applied after the files: 'MLP_MATRICES=3'.
    dropout_rate: DROPOUT_RATE, which T5X's files of runs set; the gin files' if
      None.

  Raises:
    UserError: the configuration is wrong.
  """
  if dropout_rate is not None:
    bindings = [f"DROPOUT_RATE={dropout_rate!r}", *bindings]
  with registry.apart_from("t5x.", "__main__."):
    return config.build("MODEL", gin_files, bindings)


class T5XEncoderDecoder(Bridge):
  """An `EncoderDecoder` as the module of T5X's `EncoderDecoderModel`.

  Attributes:
    model: the architecture.
  """

  def __call__(
    self,
    encoder_input_tokens: jax.Array,
    decoder_input_tokens: jax.Array,
    decoder_target_tokens: jax.Array,
    encoder_segment_ids: jax.Array | None = None,
    decoder_segment_ids: jax.Array | None = None,
    encoder_positions: jax.Array | None = None,
    decoder_positions: jax.Array | None = None,
    *,
    enable_dropout: bool = True,
    decode: bool = False,
  ) -> jax.Array:
    """Teacher-forced logits [B, L, V]; with `decode`, makes an empty cache."""
    if self.is_initializing():
      self.initialize(
        encoder_input_tokens=_ids(encoder_input_tokens),
        decoder_input_tokens=_ids(decoder_input_tokens),
        decoder_target_tokens=_ids(decoder_target_tokens),
      )
    encoded = self.encode(
      encoder_input_tokens,
      encoder_segment_ids,
      enable_dropout,
      encoder_positions=encoder_positions,
    )
    return self.decode(
      encoded,
      encoder_input_tokens,
      decoder_input_tokens,
      decoder_target_tokens,
      encoder_segment_ids,
      decoder_segment_ids,
      decoder_positions,
      enable_dropout,
      decode,
    )

  def encode(
    self,
    encoder_input_tokens: jax.Array,
    encoder_segment_ids: jax.Array | None = None,
    enable_dropout: bool = True,
    *,
    encoder_positions: jax.Array | None = None,
  ) -> jax.Array:
    """Encodes [B, M] ids into [B, M, D]."""
    return self.call_model(
      "encode",
      _ids(encoder_input_tokens),
      encoder_segment_ids=encoder_segment_ids,
      encoder_positions=encoder_positions,
      deterministic=not enable_dropout,
    )

  def decode(
    self,
    encoded: jax.Array,
    encoder_input_tokens: jax.Array,
    decoder_input_tokens: jax.Array,
    decoder_target_tokens: jax.Array,
    encoder_segment_ids: jax.Array | None = None,
    decoder_segment_ids: jax.Array | None = None,
    decoder_positions: jax.Array | None = None,
    enable_dropout: bool = True,
    decode: bool = False,
    max_decode_length: int | None = None,
  ) -> jax.Array:
    """Logits [B, L, V] of encoded inputs.

    With `decode` and a cache, L is 1: one more token of every row. With
    `decode` and none, the cache is made for L tokens.
    """
    del max_decode_length  # What T5X computes biases for; the cache knows it.
    tokens, inputs = _ids(decoder_input_tokens), _ids(encoder_input_tokens)
    if decode and self.has_variable("cache", "decoder"):
      cache, position, length = self.read_cache()
      logits, cache = self.call_model(
        "decode_step",
        tokens,
        encoded,
        inputs,
        decoding=kv_cache.Decoding(position=position, length=length),
        cache=cache,
      )
      self.write_cache(cache, position + 1)
      return logits
    if decode:
      self.make_room(
        "decode_step", (tokens[:, :1], encoded, inputs), tokens.shape[1]
      )
    return self.call_model(
      "decode",
      encoded,
      inputs,
      tokens,
      _ids(decoder_target_tokens),
      encoder_segment_ids=encoder_segment_ids,
      decoder_segment_ids=decoder_segment_ids,
      decoder_positions=decoder_positions,
      deterministic=not enable_dropout,
    )


class T5XDecoderOnly(Bridge):
  """A `DecoderOnly` as the module of T5X's `DecoderOnlyModel`.

  Attributes:
    model: the architecture.
  """

  decoder_only = True

  def __call__(
    self,
    decoder_input_tokens: jax.Array,
    decoder_target_tokens: jax.Array,
    decoder_segment_ids: jax.Array | None = None,
    decoder_positions: jax.Array | None = None,
    decoder_causal_attention: jax.Array | None = None,
    *,
    enable_dropout: bool = True,
    decode: bool = False,
    max_decode_length: int | None = None,
    prefill: bool = False,
    prefill_lengths: jax.Array | None = None,
  ) -> jax.Array:
    """Logits [B, L, V].

    With `prefill` the tokens before `prefill_lengths` are written into the
    cache; with `decode` and a cache, L is 1 and each row goes on where it
    stands; with `decode` and none, the cache is made for L tokens.
    """
    del decoder_target_tokens, max_decode_length
    tokens = _ids(decoder_input_tokens)
    if self.is_initializing():
      self.initialize(decoder_input_tokens=tokens)
    if prefill:
      return self._read_prompt(
        tokens, decoder_causal_attention, prefill_lengths
      )
    if decode and self.has_variable("cache", "decoder"):
      return self._step(tokens)
    if decode:
      no_prompt = jnp.zeros((tokens.shape[0], 0), bool)
      self.make_room("decode_step", (tokens[:, :1], no_prompt), tokens.shape[1])
    return self.call_model(
      "__call__",
      tokens,
      decoder_causal_attention=decoder_causal_attention,
      decoder_segment_ids=decoder_segment_ids,
      decoder_positions=decoder_positions,
      deterministic=not enable_dropout,
    )

  def _read_prompt(self, tokens_BL, prefix_BL, lengths_B):
    logits, cache = self.call_model(
      _read_prompt, tokens_BL, prefix_BL, cache={}
    )
    written_BL = jnp.arange(tokens_BL.shape[1])[None] < lengths_B[:, None]
    written_BHKL = written_BL[:, None, None]
    if self.scan_layers:
      written_BHKL = written_BHKL[None]
    cache = {name: x * written_BHKL for name, x in cache.items()}
    self.write_cache(cache, lengths_B)
    return logits

  def _step(self, tokens_B1):
    """One more token of each row, at its own position."""
    cache, position, length = self.read_cache()

    def step(token_1, row, position):
      logits, row = self.call_model(
        "decode_step",
        token_1[None],
        jnp.zeros((1, 0), bool),
        decoding=kv_cache.Decoding(position=position, length=length),
        cache=jax.tree.map(lambda x: jnp.expand_dims(x, rows), row),
      )
      return logits[0], jax.tree.map(lambda x: jnp.squeeze(x, rows), row)

    rows = 1 if self.scan_layers else 0
    # T5X's beam search leaves it [rows, beams]: all else is [rows * beams].
    positions = jnp.broadcast_to(position.reshape(-1), len(tokens_B1))
    logits, cache = jax.vmap(step, (0, rows, 0), (0, rows))(
      tokens_B1, cache, positions
    )
    self.write_cache(cache, position + 1)
    return logits


def _ids(tokens: jax.Array) -> jax.Array:
  """T5X initializes with tokens that are floats."""
  return tokens.astype(jnp.int32)


def _read_prompt(model: nn.Module, tokens_BL, prefix_BL):
  """Logits of a `DecoderOnly`; keys and values go into slots 0 to L - 1."""
  mask_B1LL = masks.causal_mask(tokens_BL.shape[1])
  if prefix_BL is not None:
    mask_B1LL |= masks.prefix_mask(prefix_BL > 0)
  return model.decoder(
    model.token_embedder(tokens_BL),
    embedder=model.token_embedder,
    mask_B1LM=mask_B1LL,
    decoding=kv_cache.Decoding(
      position=None, prompt_BP=jnp.ones(tokens_BL.shape, bool), length=0
    ),
    deterministic=True,
  )
