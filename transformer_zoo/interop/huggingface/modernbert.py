"""ModernBERT (`modernbert`).

A third of the layers sees the whole text, the others a window on both sides.
Classes of texts are read from the first token, or from the mean over all tokens
(`classifier_pooling`, "cls" or "mean").
Source: `models/modernbert` of `transformers`.
"""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface import bert
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.family import Architecture
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import SideBySide

_GLOBAL, _LOCAL = "full_attention", "sliding_attention"
_OF_TEXTS = ("classes", "number", "choice")
_ATTRIBUTES = Attributes(
  defaults={
    "vocab_size": 50368,
    "hidden_size": 768,
    "intermediate_size": 1152,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "hidden_activation": "gelu",
    "norm_eps": 1e-5,
    "norm_bias": False,
    "attention_bias": False,
    "mlp_bias": False,
    "decoder_bias": True,
    "layer_types": None,
    "global_attn_every_n_layers": 3,
    "local_attention": 128,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "rope_parameters": None,
    "embedding_dropout": 0.0,
    "mlp_dropout": 0.0,
    "classifier_dropout": 0.0,
    "classifier_bias": False,
    "classifier_activation": "gelu",
    "classifier_pooling": "cls",
    "tie_word_embeddings": True,
  },
  optional={"layer_types": list, "rope_parameters": dict},
  allowed={
    "attention_dropout": (0,),
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
    "position_embedding_type": ("absolute",),
    "rope_scaling": (None,),
  },
  without_effect=(
    "max_position_embeddings initializer_cutoff_factor reference_compile "
    "sparse_prediction sparse_pred_ignore_index deterministic_flash_attn "
    f"repad_logits_with_grad layer_norm_eps {bert.HAS_POOLER}"
  ).split(),
)


@dataclasses.dataclass(frozen=True)
class Modernbert(bert.Bert):
  """See `Family`."""

  has_types: bool = False
  has_pooler: bool = False

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """See `Family`."""
    return self.attributes.read(config)["num_hidden_layers"]

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """See `Family`."""
    found, heads = self._read(config), self._heads(config)
    width, number = found["hidden_size"], found["num_attention_heads"]
    attributes.check_multiple(self.kind, width, number)
    banded = [kind == _LOCAL for kind in found["layer_types"]]
    # theirs is the farthest token that is seen, ours the first that is not.
    window = found["local_attention"] // 2 + 1
    of_heads = self._activation("classifier_activation", found)
    bindings = {
      "VOCAB_SIZE": found["vocab_size"],
      "EMBED_DIM": width,
      "MLP_DIM": found["intermediate_size"],
      "NUM_HEADS": number,
      "HEAD_DIM": width // number,
      "NUM_ENCODER_LAYERS": found["num_hidden_layers"],
      "EncoderOnly.pad_id": attributes.padding_id(config, default=50283),
      "LayerNorm.epsilon": found["norm_eps"],
      "LayerNorm.use_bias": found["norm_bias"],
      "GatedMlp.activation": self._activation("hidden_activation", found),
      "encoder/Stack.windows": attributes.windows_of_layers(banded, window),
      "Rotary.theta": found["global_rope_theta"],
      "Rotary.local_theta": found["local_rope_theta"],
      "embedding/Dropout.rate": found["embedding_dropout"],
      "hidden/Dropout.rate": found["mlp_dropout"],
    }
    for name in ("query", "key", "value", "out"):
      bindings[f"{name}/Linear.use_bias"] = found["attention_bias"]
    for name in ("wi", "wo"):
      bindings[f"{name}/Linear.use_bias"] = found["mlp_bias"]
    if any(name in _OF_TEXTS for name in heads):
      pooling = found["classifier_pooling"]
      attributes.check_allowed(
        self.kind, "classifier_pooling", pooling, ("cls", "mean")
      )
      bindings["EncoderOnly.averages"] = pooling == "mean"
    if not heads:
      bindings["EncoderOnly.pooler"] = None
    else:
      bindings["dense/Linear.use_bias"] = found["classifier_bias"]
    if heads and heads != ("tokens",):
      bindings["Transform.activation"] = of_heads
    bindings |= self._bindings_of_heads(config, found, heads, of_heads)
    if heads == ("spans",):
      bindings["head/Dropout.rate"] = found["classifier_dropout"]
    if heads == ("tokens",) and found["tie_word_embeddings"]:
      bindings["TiedLogits.use_bias"] = found["decoder_bias"]
    elif heads == ("tokens",):
      bindings["logits/Linear.use_bias"] = found["decoder_bias"]
    return Architecture(
      (self.architecture_file, *(f"heads/{name}.gin" for name in heads)),
      bindings,
    )

  def config(self, model: nn.Module) -> dict[str, Any]:
    """See `Family`."""
    with attributes.counterpart(self.kind):
      stack, parts = model.encoder, model.heads.parts
      layer, heads = stack.layer, tuple(parts)
      rotary = layer.attention.rotary
      banded, window = attributes.windows_of_stack(self.kind, stack)
      thetas = {
        _GLOBAL: rotary.theta,
        _LOCAL: rotary.local_theta or rotary.theta,
      }
      found = {
        "vocab_size": model.token_embedder.num_embeddings,
        "hidden_size": model.token_embedder.features,
        "intermediate_size": layer.mlp.d_ff,
        "num_hidden_layers": stack.num_layers,
        "num_attention_heads": layer.attention.num_heads,
        "hidden_activation": attributes.their_activation(
          self.kind, layer.mlp.activation
        ),
        "norm_eps": layer.norm.epsilon,
        "norm_bias": layer.norm.use_bias,
        "attention_bias": layer.attention.query.use_bias,
        "mlp_bias": layer.mlp.wo.use_bias,
        "layer_types": [_LOCAL if band else _GLOBAL for band in banded],
        "rope_parameters": {
          kind: {"rope_type": "default", "rope_theta": theta}
          for kind, theta in thetas.items()
        },
        "embedding_dropout": stack.dropout.rate,
        "mlp_dropout": layer.mlp.dropout.rate,
        "tie_word_embeddings": "tokens" not in parts
        or type(parts["tokens"].softmax).__name__ == "TiedLogits",
      }
      if window is not None:
        found["local_attention"] = 2 * (window - 1)
      for name, part in parts.items():
        found |= self._of_head(name, part, model)
    return {
      "architectures": [self.classes + self._class_of(heads)],
      "model_type": self.kind,
      "pad_token_id": model.pad_id,
      **found,
    }

  def _of_head(self, name: str, part: nn.Module, model) -> dict[str, Any]:
    """The attributes that a head says."""
    transform = part if name == "tokens" else model.pooler
    if name in ("tags", "spans"):
      transform = part.transform
    found = {
      "classifier_activation": attributes.their_activation(
        self.kind, transform.activation
      ),
      "classifier_bias": transform.dense.use_bias,
    }
    if name == "tokens":
      softmax = part.softmax
      dense = getattr(softmax, "logits_dense", softmax)
      found["decoder_bias"] = dense.use_bias
    else:
      found["classifier_dropout"] = part.dropout.rate
      if name in ("classes", "tags", "number"):
        found["num_labels"] = part.num_classes
    if name in _OF_TEXTS:
      found["classifier_pooling"] = "mean" if model.averages else "cls"
    return found

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`."""
    found, heads = self._read(config), self._heads(config)
    norm_bias = found["norm_bias"]

    def norm(theirs, ours):
      links = links_lib.layer_norm(theirs, ours)
      return [link for link in links if norm_bias or "scale" in link.ours[0]]

    links = [
      Link(self._table("word"), ("token_embedder/embedding",)),
      *norm(f"{self.prefix}embeddings.norm", "encoder/input_norm"),
      *norm(f"{self.prefix}final_norm", "encoder/encoder_norm"),
    ]
    for index in range(found["num_hidden_layers"]):
      theirs = f"{self.prefix}layers.{index}"
      ours = f"encoder/layers_{index}"
      if index:
        links += norm(f"{theirs}.attn_norm", f"{ours}/pre_attention_layer_norm")
      links += norm(f"{theirs}.mlp_norm", f"{ours}/pre_mlp_layer_norm")
      attention = [f"{ours}/attention/{n}" for n in ("query", "key", "value")]
      links += _side_by_side(
        f"{theirs}.attn.Wqkv", attention, bias=found["attention_bias"]
      )
      links += links_lib.linear(
        f"{theirs}.attn.Wo",
        f"{ours}/attention/out",
        bias=found["attention_bias"],
      )
      gate_and_value = [f"{ours}/mlp/{n}" for n in ("wi_0", "wi_1")]
      links += _side_by_side(
        f"{theirs}.mlp.Wi", gate_and_value, bias=found["mlp_bias"]
      )
      links += links_lib.linear(
        f"{theirs}.mlp.Wo", f"{ours}/mlp/wo", bias=found["mlp_bias"]
      )
    for name in heads:
      transform = f"heads/{name}"
      if name in _OF_TEXTS:
        transform = "pooler"
      elif name != "tokens":
        transform += "/transform"
      links += links_lib.linear(
        "head.dense", f"{transform}/dense", bias=found["classifier_bias"]
      )
      links += norm("head.norm", f"{transform}/norm")
      if name != "tokens":
        links += links_lib.linear("classifier", f"heads/{name}/out")
      elif not found["tie_word_embeddings"]:
        links += links_lib.linear(
          "decoder", "heads/tokens/logits_dense", bias=found["decoder_bias"]
        )
      elif found["decoder_bias"]:
        links.append(Link("decoder.bias", ("heads/tokens/logits_bias",)))
    return links

  def _links_of_heads(
    self, heads: Sequence[str], *, tied: bool
  ) -> Iterator[Link]:
    """Those by which a class is known: its weights."""
    if heads:
      yield from links_lib.linear("head.dense", "", bias=False)
    for name in heads:
      if name != "tokens":
        yield from links_lib.linear("classifier", "", bias=False)
      elif not tied:
        yield from links_lib.linear("decoder", "", bias=False)

  def _stored_class(self, config, stored) -> str:
    """See `Bert`; biases and norms tell no class."""
    known = ("head.dense.weight", "classifier.weight", "decoder.weight")
    kept = [n for n in stored if n.startswith(self.prefix) or n in known]
    return super()._stored_class(config, kept)

  def _table(self, name: str) -> str:
    del name
    return f"{self.prefix}embeddings.tok_embeddings.weight"

  def _activation(self, name: str, found: Mapping[str, Any]) -> str:
    return attributes.activation(self.kind, name, found[name])

  def _read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, with a type of each layer and both bases."""
    found = self.attributes.read(config)
    number, every = (
      found["num_hidden_layers"],
      found["global_attn_every_n_layers"],
    )
    if found["layer_types"] is None:
      found["layer_types"] = [
        _LOCAL if index % every else _GLOBAL for index in range(number)
      ]
    for kind in found["layer_types"]:
      attributes.check_allowed(
        self.kind, "layer_types", kind, (_GLOBAL, _LOCAL)
      )
    if len(found["layer_types"]) != number:
      attributes.check_allowed(
        self.kind, "num_hidden_layers", number, (len(found["layer_types"]),)
      )
    names = {_GLOBAL: "global_rope_theta", _LOCAL: "local_rope_theta"}
    for kind, table in (found["rope_parameters"] or {}).items():
      attributes.check_allowed(self.kind, "rope_parameters", kind, names)
      attributes.check_type(self.kind, kind, table, dict)
      turns = table.get("rope_type", "default")
      attributes.check_allowed(self.kind, "rope_type", turns, ("default",))
      theta = table.get("rope_theta", found[names[kind]])
      attributes.check_type(self.kind, "rope_theta", theta, float)
      found[names[kind]] = float(theta)
    return found


def _side_by_side(theirs, ours, *, bias: bool) -> Iterator[Link]:
  """Links of a linear map whose outputs lie one after the other."""
  number = len(ours)
  kernels = tuple(f"{name}/kernel" for name in ours)
  rows = SideBySide(number, axis=0, transposed=True)
  yield Link(f"{theirs}.weight", kernels, rows)
  if bias:
    biases = tuple(f"{name}/bias" for name in ours)
    yield Link(f"{theirs}.bias", biases, SideBySide(number))


FAMILIES = (
  Modernbert(
    kind="modernbert",
    classes="ModernBert",
    suffixes=[
      suffix
      for suffix in bert.HEADS
      if suffix not in ("ForPreTraining", "ForNextSentencePrediction")
    ],
    attributes=_ATTRIBUTES,
    prefix="model.",
    tokens={"softmax": "decoder"},
    dropouts=dict.fromkeys((*_OF_TEXTS, "tags"), "classifier_dropout"),
    architecture_file="architectures/modernbert.gin",
    pad_id=50283,
  ),
)
