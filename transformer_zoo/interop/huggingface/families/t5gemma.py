"""T5Gemma (`t5gemma`), an encoder-decoder of Gemma 2's layers.

Its config.json has a table of attributes for each side. A side has its own
sizes, pattern of windows and table of embeddings; what else the tables say must
agree. A token of the encoder sees one more token on either side than
`sliding_window` says, one of the decoder as many tokens. Source:
`models/t5gemma` of `transformers`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.attributes import OMITTED
from transformer_zoo.interop.huggingface.families import gemma
from transformer_zoo.interop.huggingface.families import llama
from transformer_zoo.interop.huggingface.family import Family
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

_SIDES = "encoder", "decoder"
_BEGINNING = 2
_MODULE = "t5_gemma_module"
_HEAD = "lm_head.out_proj"
_WINDOWS = "Windows.sizes"
# What each side has of its own: the parameters of the encoder's parts by what
# binds those of the decoder, and a part that the encoder does not share then.
_TABLE = {"EncoderDecoder.token_embedder": Reference("@encoder/Embed()")}
_NETWORK = {"EncoderLayer.mlp": Reference("@encoder/GatedMlp()")}
_OF_ENCODER = {
  "EMBED_DIM": ("encoder/Embed.features", _TABLE),
  "VOCAB_SIZE": ("encoder/Embed.num_embeddings", _TABLE),
  "MLP_DIM": ("encoder/GatedMlp.d_ff", _NETWORK),
  "NUM_HEADS": ("encoder/Attention.num_heads", None),
  "NUM_KV_HEADS": ("encoder/Attention.num_kv_heads", None),
  "HEAD_DIM": ("encoder/Attention.head_dim", None),
  "Attention.scale_size": ("encoder/Attention.scale_size", None),
}
_OWN = frozenset(
  """
  cross_attention_hidden_size final_logit_softcapping head_dim hidden_size
  intermediate_size layer_types max_position_embeddings num_attention_heads
  num_hidden_layers num_key_value_heads pad_token_id query_pre_attn_scalar
  sliding_window vocab_size
  """.split()
)
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "out": "o"}
# Of each side: our sublayer, theirs, and what our norms around it are called
# for.
_ATTENTIONS = {
  "encoder": (("attention", "self_attn", "attention"),),
  "decoder": (
    ("self_attention", "self_attn", "self_attention"),
    ("encoder_decoder_attention", "cross_attn", "cross_attention"),
  ),
}


def _table(parts: Parts) -> nn.Module:
  """The embeddings of the tokens of a side."""
  if parts.side == "encoder":
    return parts.tokens
  return parts.model.target_embedder


def _heads(parts: Parts) -> int:
  number = parts.attention.num_heads
  attributes.check_multiple(parts.kind, _table(parts).features, number)
  return number


def _window(parts: Parts) -> Any:
  """The number in config.json, which no class does without."""
  if (width := llama.window(parts)) is None:
    return OMITTED
  return width - 1 if parts.side == "encoder" else width


def _windows_of_encoder(found: Mapping[str, Any]) -> dict[str, Any]:
  sizes = gemma.windows(found)[_WINDOWS]
  return {_WINDOWS: tuple(size and size + 1 for size in sizes)}


_OF_DECODER = gemma.OF_GEMMA_2.changed(
  Attribute("vocab_size", 256000, "VOCAB_SIZE",
            lambda parts: _table(parts).num_embeddings),
  Attribute("hidden_size", 2304, "EMBED_DIM",
            lambda parts: _table(parts).features),
  Attribute("num_attention_heads", 8, "NUM_HEADS", _heads),
  Attribute("sliding_window", 4096, of=_window, kind=int),
  attributes.padding((), 0),
  # Their class computes it.
  Attribute("cross_attention_hidden_size", None, kind=int),
  # The table of the whole model says both.
  without=("attention_dropout", "tie_word_embeddings"),
  allowed={"is_encoder_decoder": (True, False)},
  without_effect="""
  attention_dropout classifier_dropout_rate dropout_rate tie_word_embeddings
  """.split(),
)  # fmt: skip
_OF_SIDES = {
  "encoder": _OF_DECODER.changed(
    Attribute(
      "layer_types", None, _windows_of_encoder, llama.layer_types, kind=list
    )
  ),
  "decoder": _OF_DECODER,
}
_ATTRIBUTES = Attributes(
  (
    Attribute("dropout_rate", 0.0, "DROPOUT_RATE"),
    Attribute("attention_dropout", 0.0, "attention/Dropout.rate"),
    Attribute("tie_word_embeddings", True, of=attributes.tied),
    attributes.padding("EncoderDecoder.pad_id", 0),
    attributes.STARTS_WITH_PADDING,
  ),
  allowed={"is_encoder_decoder": (True,)},
  without_effect=("classifier_dropout_rate", "vocab_size"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class T5Gemma(Family):
  """See `Family`.

  Attributes:
    sides: The attributes of the tables of each side.
  """

  sides: Mapping[str, Attributes]

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    if config.get("tie_word_embeddings") is False:
      return {}
    return {f"{_HEAD}.weight": "model.decoder.embed_tokens.weight"}

  def completed(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`."""
    tied = config.get("tie_word_embeddings") is not False
    tied &= f"{_HEAD}.weight" not in stored
    return {**config, "tie_word_embeddings": tied}

  def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`; the attributes of a side stand under its name."""
    whole = {k: v for k, v in config.items() if k not in _SIDES}
    found = self.attributes.read(whole)
    for side, rows in self.sides.items():
      table = config.get(side) or {}
      attributes.check_type(self.kind, side, table, dict)
      named = table.get("model_type", _MODULE)
      attributes.check_allowed(
        self.kind, f"{side}'s model_type", named, (_MODULE,)
      )
      found[side] = rows.read({**table, "model_type": f"{self.kind} ({side})"})
      found[side]["tie_word_embeddings"] = found["tie_word_embeddings"]
    if "pad_token_id" not in config:
      found["pad_token_id"] = found["decoder"]["pad_token_id"]
    encoder, decoder = (found[side] for side in _SIDES)
    for name in encoder.keys() - _OWN - {"model_type"}:
      if encoder[name] != decoder[name]:
        raise UserError(
          f"config.json of a {self.kind} model has {name}={encoder[name]!r} of "
          f"its encoder and {decoder[name]!r} of its decoder; here both sides "
          "have one value"
        )
    return found

  def first_fed(self, config: Mapping[str, Any]) -> int | None:
    """See `Family`."""
    beginning = config["decoder"] if config.get("decoder") else {}
    beginning = beginning.get("bos_token_id", _BEGINNING)
    return config.get("bos_token_id", beginning)

  def as_written(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`; of labels, their class makes what the decoder is fed."""
    start = config.get("decoder_start_token_id")
    return {**config, "decoder": {**config["decoder"], "bos_token_id": start}}

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    found = self.read(config)
    return sum(found[side]["num_hidden_layers"] for side in _SIDES)

  def gin_files(self, found: Mapping[str, Any]) -> Sequence[str]:
    """See `Family`."""
    softmax = "tied" if found["tie_word_embeddings"] else "untied"
    return (self.architecture_file, f"parts/softmax/{softmax}.gin")

  def bindings_of(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`; what the encoder has of its own is bound to its parts."""
    encoder, decoder = (
      self.sides[side].bindings(found[side]) for side in _SIDES
    )
    bound = {
      **self.bindings,
      **decoder,
      **self.attributes.bindings(found),
      "NUM_ENCODER_LAYERS": encoder["NUM_DECODER_LAYERS"],
      f"encoder/{_WINDOWS}": encoder[_WINDOWS],
    }
    for name, (parameter, part) in _OF_ENCODER.items():
      if encoder[name] != decoder[name]:
        bound |= {parameter: encoder[name], **(part or {})}
    return bound

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    found = super().config(model)
    parts = self.parts_of(model)
    if model.target_embedder is None or model.tied_side != "decoder":
      raise UserError(
        f"{self.kind} models have a table of embeddings for each side, and a "
        "tied softmax the decoder's; see parts/embeddings/own_tables.gin"
      )
    for side, of in {"encoder": parts.encoder, "decoder": parts}.items():
      described = self.sides[side].described(of)
      found[side] = {"model_type": _MODULE, **described}
    return found

  @property
  def head_names(self) -> Collection[str]:
    """See `Family`."""
    return (f"{_HEAD}.",)

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = self.read(config)
    links = [
      Link("model.encoder.embed_tokens.weight", ("token_embedder/embedding",)),
      Link("model.decoder.embed_tokens.weight", ("target_embedder/embedding",)),
    ]
    for side in _SIDES:
      for layer in range(found[side]["num_hidden_layers"]):
        links += _links_of_layer(
          side, layer, bias=found[side]["attention_bias"]
        )
      links.append(
        Link(f"model.{side}.norm.weight", (f"{side}/{side}_norm/scale",))
      )
    if not found["tie_word_embeddings"]:
      links += links_lib.linear(_HEAD, "decoder/logits_dense", bias=False)
    return links


def _links_of_layer(side: str, layer: int, *, bias: bool) -> Iterator[Link]:
  maps = {
    f"mlp/{ours}": f"mlp.{theirs}_proj"
    for ours, theirs in {"wi_0": "gate", "wi_1": "up", "wo": "down"}.items()
  }
  norms = {"mlp": "feedforward"}
  projections = {}
  for ours, theirs, norm in _ATTENTIONS[side]:
    norms[norm] = theirs
    for name, letter in _PROJECTIONS.items():
      projections[f"{ours}/{name}"] = f"{theirs}.{letter}_proj"
  table = {**maps, **projections}
  for ours, theirs in norms.items():
    for place in ("pre", "post"):
      table[f"{place}_{ours}_layer_norm/scale"] = f"{place}_{theirs}_layernorm"
  yield from links_lib.of_table(
    table,
    f"model.{side}.layers.{layer}.",
    f"{side}/layers_{layer}/",
    without_bias=maps if bias else table,
  )


FAMILIES = (
  T5Gemma(
    kind="t5gemma",
    attributes=_ATTRIBUTES,
    sides=_OF_SIDES,
    prefix="model.",
    ignored=(r"(model\.)?(en|de)coder\.rotary_emb\.inv_freq",),
    architecture_file="architectures/t5gemma.gin",
    bindings=llama.NO_BIASES,
    written={
      "architectures": ["T5GemmaForConditionalGeneration"],
      "is_encoder_decoder": True,
    },
  ),
)
