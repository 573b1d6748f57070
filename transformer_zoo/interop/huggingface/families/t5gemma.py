"""T5Gemma (`t5gemma`) and the side of texts of T5Gemma 2 (`t5gemma2`).

They are encoder-decoders of Gemma 2's and Gemma 3's layers, whose config.json
has a table of attributes for each side. A side has its own sizes and pattern of
windows; what else the tables say must agree. In T5Gemma a token of the encoder
sees `sliding_window` tokens on either side beside itself, in T5Gemma 2 as many
on both sides together. Tensors that read images are passed over. Source:
`models/t5gemma` and `t5gemma2` of `transformers`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn
import numpy as np

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
_TEXT, _IMAGES = "text_config", "vision_config"
# The smallest tower, for a class that cannot do without one.
_TOWER = {
  "model_type": "siglip_vision_model",
  "hidden_size": 8,
  "image_size": 14,
  "intermediate_size": 8,
  "num_attention_heads": 1,
  "num_hidden_layers": 1,
  "patch_size": 14,
}
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
_OF_ITSELF = ("self_attention", "self_attn", "self_attention")
_ATTENTIONS = {
  "encoder": (("attention", "self_attn", "attention"),),
  "decoder": (
    _OF_ITSELF,
    ("encoder_decoder_attention", "cross_attn", "cross_attention"),
  ),
}


def _table(parts: Parts) -> nn.Module:
  """The embeddings of the tokens of a side."""
  if parts.side == "encoder":
    return parts.tokens
  return parts.model.target_embedder or parts.tokens


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


def _window_of_both_sides(parts: Parts) -> Any:
  """As `_window`, of an encoder whose window has both sides of a token."""
  width = _window(parts)
  if width is OMITTED or parts.side == "decoder":
    return width
  return 2 * width + 1 + parts.more_ahead


def _windows_of_both_sides(found: Mapping[str, Any]) -> dict[str, Any]:
  width, sizes = found["sliding_window"], gemma.windows(found)[_WINDOWS]
  return {
    _WINDOWS: tuple(size and (size + 1) // 2 for size in sizes),
    "Windows.more_ahead": int(any(sizes) and width % 2 == 0),
  }


def _sides(
  of_gemma: Attributes,
  windows_of_encoder: Callable[[Mapping[str, Any]], dict[str, Any]],
  window: Callable[[Parts], Any],
) -> dict[str, Attributes]:
  """The attributes of the table of each side."""
  of_decoder = of_gemma.changed(
    Attribute(
      "vocab_size",
      of_gemma["vocab_size"].default,
      "VOCAB_SIZE",
      lambda parts: _table(parts).num_embeddings,
    ),
    Attribute(
      "hidden_size", 2304, "EMBED_DIM", lambda parts: _table(parts).features
    ),
    Attribute("num_attention_heads", 8, "NUM_HEADS", _heads),
    Attribute("sliding_window", 4096, of=window, kind=int),
    attributes.padding((), 0),
    # Their class computes it.
    Attribute("cross_attention_hidden_size", None, kind=int),
    # The table of the whole model says both.
    without=("attention_dropout", "tie_word_embeddings"),
    allowed={"is_encoder_decoder": (True, False)},
    without_effect="""
    attention_dropout classifier_dropout_rate dropout_rate tie_word_embeddings
    """.split(),
  )
  layer_types = Attribute(
    "layer_types", None, windows_of_encoder, llama.layer_types, kind=list
  )
  return {"encoder": of_decoder.changed(layer_types), "decoder": of_decoder}


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
# The table around the encoder's text of T5Gemma 2.
_AROUND_TEXT = Attributes(
  (),
  allowed={"is_encoder_decoder": (False,)},
  without_effect=(
    *("boi_token_index", "eoi_token_index", "image_token_index"),
    *("mm_tokens_per_image", "tie_word_embeddings", _TEXT, _IMAGES),
  ),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class T5Gemma(Family):
  """See `Family`.

  Attributes:
    sides: The attributes of the table of each side.
    modules: The `model_type` of the table of each side.
    stacks: What the names of the tensors of each side begin with.
    own: The attributes that each side has of its own.
    attentions: The attentions of the layers of each side.
  """

  sides: Mapping[str, Attributes]
  modules: Mapping[str, str]
  stacks: Mapping[str, str]
  own: Collection[str] = _OWN
  attentions: Mapping[str, Sequence[tuple[str, str, str]]] = dataclasses.field(
    default_factory=lambda: _ATTENTIONS
  )

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`."""
    if config.get("tie_word_embeddings") is False:
      return {}
    return {f"{_HEAD}.weight": f"{self.stacks['decoder']}.embed_tokens.weight"}

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
      table = self.table_of(config, side)
      module = self.modules[side]
      named = table.get("model_type", module)
      attributes.check_allowed(
        self.kind, f"{side}'s model_type", named, (module,)
      )
      found[side] = rows.read({**table, "model_type": f"{self.kind} ({side})"})
      found[side]["tie_word_embeddings"] = found["tie_word_embeddings"]
    if "pad_token_id" not in config:
      found["pad_token_id"] = found["decoder"]["pad_token_id"]
    encoder, decoder = (found[side] for side in _SIDES)
    for name in encoder.keys() - {*self.own} - {"model_type"}:
      if encoder[name] != decoder[name]:
        raise UserError(
          f"config.json of a {self.kind} model has {name}={encoder[name]!r} of "
          f"its encoder and {decoder[name]!r} of its decoder; here both sides "
          "have one value"
        )
    return found

  def table_of(self, config: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The attributes of a side in a config.json."""
    table = config.get(side) or {}
    attributes.check_type(self.kind, side, table, dict)
    return table

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
      **{f"encoder/{n}": x for n, x in encoder.items() if "Windows." in n},
    }
    for name, (parameter, part) in _OF_ENCODER.items():
      if encoder[name] != decoder[name]:
        bound |= {parameter: encoder[name], **(part or {})}
    return bound

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    found = super().config(model)
    parts = self.parts_of(model)
    self.check_tables(model)
    for side, of in {"encoder": parts.encoder, "decoder": parts}.items():
      described = self.sides[side].described(of)
      found[side] = {"model_type": self.modules[side], **described}
    return found

  def check_tables(self, model: nn.Module) -> None:
    """Refuses a model whose sides have other tables of embeddings."""
    if model.target_embedder is None or model.tied_side != "decoder":
      raise UserError(
        f"{self.kind} models have a table of embeddings for each side, and a "
        "tied softmax the decoder's; see parts/embeddings/own_tables.gin"
      )

  @property
  def head_names(self) -> Collection[str]:
    """See `Family`."""
    return (f"{_HEAD}.",)

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found = self.read(config)
    links = self.links_of_tables()
    for side in _SIDES:
      for layer in range(found[side]["num_hidden_layers"]):
        links += self._links_of_layer(
          side, layer, bias=found[side]["attention_bias"]
        )
      links.append(
        Link(f"{self.stacks[side]}.norm.weight", (f"{side}/{side}_norm/scale",))
      )
    if not found["tie_word_embeddings"]:
      links += links_lib.linear(_HEAD, "decoder/logits_dense", bias=False)
    return links

  def links_of_tables(self) -> list[Link]:
    """The links of the embeddings of tokens."""
    return [
      Link(f"{self.stacks[side]}.embed_tokens.weight", (f"{ours}/embedding",))
      for side, ours in (
        ("encoder", "token_embedder"),
        ("decoder", "target_embedder"),
      )
    ]

  def _links_of_layer(
    self, side: str, layer: int, *, bias: bool
  ) -> Iterator[Link]:
    maps = {
      f"mlp/{ours}": f"mlp.{theirs}_proj"
      for ours, theirs in {"wi_0": "gate", "wi_1": "up", "wo": "down"}.items()
    }
    table, norms = dict(maps), {"mlp": "feedforward"}
    for ours, theirs, norm in self.attentions[side]:
      norms[norm] = theirs
      for name, letter in _PROJECTIONS.items():
        table[f"{ours}/{name}"] = f"{theirs}.{letter}_proj"
    for ours, theirs in norms.items():
      for place in ("pre", "post"):
        norm = f"{place}_{ours}_layer_norm/scale"
        table[norm] = f"{place}_{theirs}_layernorm"
    yield from links_lib.of_table(
      table | self.norms_of_heads(side),
      f"{self.stacks[side]}.layers.{layer}.",
      f"{side}/layers_{layer}/",
      without_bias=maps if bias else table,
    )

  def norms_of_heads(self, side: str) -> Mapping[str, str]:
    """Their norms of queries and keys in a layer of a side, by ours."""
    del side
    return {}


@dataclasses.dataclass(frozen=True)
class _Zeros:
  """A vector of 0 as wide as our table, in whose place ours has a row.

  Its link is only written.
  """

  def split(self, theirs):
    return ()

  def join(self, ours):
    return np.zeros(ours[0].shape[1], ours[0].dtype)


class T5Gemma2(T5Gemma):
  """A family whose encoder reads images too, of which texts are read here."""

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str]:
    """See `Family`; published files have other names of the encoder's."""
    encoder = self.stacks["encoder"]
    published = {
      link.theirs.replace(".text_model", "", 1): link.theirs
      for link in self.links(config)
      if link.theirs.startswith(encoder)
    }
    table = f"{encoder}.embed_tokens.weight"
    decoder = f"{self.stacks['decoder']}.embed_tokens.weight"
    return {**published, decoder: table, f"{_HEAD}.weight": table}

  def completed(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`."""
    del stored
    return dict(config)

  def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """See `T5Gemma`; one table is that of both sides and of the softmax."""
    found = super().read(config)
    tied = found["tie_word_embeddings"]
    attributes.check_allowed(self.kind, "tie_word_embeddings", tied, (True,))
    return found

  def table_of(self, config: Mapping[str, Any], side: str) -> dict[str, Any]:
    """See `T5Gemma`."""
    table = super().table_of(config, side)
    if side == "decoder":
      return table
    kind = f"{self.kind} ({side})"
    _AROUND_TEXT.read({**table, "model_type": kind})
    text = table.get(_TEXT) or {}
    attributes.check_type(kind, _TEXT, text, dict)
    return text

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    found = super().config(model)
    encoder = {"model_type": "t5gemma2_encoder", _IMAGES: _TOWER}
    return {**found, "encoder": {**encoder, _TEXT: found["encoder"]}}

  def check_tables(self, model: nn.Module) -> None:
    """See `T5Gemma`."""
    if model.target_embedder is not None:
      raise UserError(
        f"{self.kind} models have one table of embeddings for both sides; see "
        "parts/embeddings/one_table.gin"
      )

  def links_of_tables(self) -> list[Link]:
    """See `T5Gemma`; the end of an image has an embedding apart."""
    table, ours = self.stacks["encoder"], ("token_embedder/embedding",)
    return [
      Link(f"{table}.embed_tokens.weight", ours),
      Link(
        f"{table}.embed_tokens.eoi_embedding", ours, _Zeros(), only_written=True
      ),
    ]

  def norms_of_heads(self, side: str) -> Mapping[str, str]:
    """See `T5Gemma`."""
    ((name, theirs, _),) = self.attentions[side]
    return {
      f"{name}/{ours}_norm/scale": f"{theirs}.{ours[0]}_norm"
      for ours in ("query", "key")
    }


FAMILIES = (
  T5Gemma(
    kind="t5gemma",
    attributes=_ATTRIBUTES,
    sides=_sides(gemma.OF_GEMMA_2, _windows_of_encoder, _window),
    modules=dict.fromkeys(_SIDES, "t5_gemma_module"),
    stacks={side: f"model.{side}" for side in _SIDES},
    prefix="model.",
    ignored=(r"(model\.)?(en|de)coder\.rotary_emb\.inv_freq",),
    architecture_file="architectures/t5gemma.gin",
    bindings=llama.NO_BIASES,
    written={
      "architectures": ["T5GemmaForConditionalGeneration"],
      "is_encoder_decoder": True,
    },
  ),
  T5Gemma2(
    kind="t5gemma2",
    attributes=_ATTRIBUTES.changed(
      without_effect=("eoi_token_index", "image_token_index"),
    ),
    sides=_sides(
      gemma.OF_GEMMA_3, _windows_of_both_sides, _window_of_both_sides
    ),
    modules={"encoder": "t5gemma2_text", "decoder": "t5gemma2_decoder"},
    stacks={"encoder": "model.encoder.text_model", "decoder": "model.decoder"},
    own=_OWN - {"hidden_size", "vocab_size"},
    attentions={**_ATTENTIONS, "decoder": (_OF_ITSELF,)},
    prefix="model.",
    ignored=(
      r"model\.encoder\.(vision_tower|multi_modal_projector)\..*",
      r"model\.(en|de)coder\.(text_model\.)?embed_tokens\.eoi_embedding",
    ),
    architecture_file="architectures/t5gemma2.gin",
    bindings=llama.NO_BIASES,
    written={
      "architectures": ["T5Gemma2ForConditionalGeneration"],
      "is_encoder_decoder": True,
    },
  ),
)
