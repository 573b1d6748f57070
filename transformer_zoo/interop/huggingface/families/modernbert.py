"""ModernBERT (`modernbert`).

A third of the layers sees the whole text, the others a window on both sides.
Classes of texts are read from the first token, or from the mean over all tokens
(`classifier_pooling`, "cls" or "mean").
Source: `models/modernbert` of `transformers`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import operator
from typing import Any

from flax import linen as nn

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import OMITTED
from transformer_zoo.interop.huggingface.families import bert
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import SideBySide

_GLOBAL, _LOCAL = "full_attention", "sliding_attention"
_THETAS = {_GLOBAL: "global_rope_theta", _LOCAL: "local_rope_theta"}


def layers_with_windows(found: Mapping[str, Any]) -> list[bool]:
  """Whether each layer sees a window alone.

  Raises:
    UserError: There are other kinds of layers, or another number of them.
  """
  kind, kinds = found["model_type"], found["layer_types"]
  number, every = (
    found["num_hidden_layers"],
    found["global_attn_every_n_layers"],
  )
  if kinds is None:
    kinds = [_LOCAL if index % every else _GLOBAL for index in range(number)]
  for name in kinds:
    attributes.check_allowed(kind, "layer_types", name, (_GLOBAL, _LOCAL))
  if len(kinds) != number:
    attributes.check_allowed(kind, "num_hidden_layers", number, (len(kinds),))
  return [kind == _LOCAL for kind in kinds]


def _windows(found: Mapping[str, Any]) -> dict[str, attributes.Windows]:
  # Theirs is the farthest token that is seen, ours the first that is not.
  windows = attributes.windows_of_layers(
    layers_with_windows(found), found["local_attention"] // 2 + 1
  )
  return {"encoder/Windows.sizes": windows}


def layer_types(parts: Parts) -> list[str]:
  """`Attribute.of` the kind of each layer."""
  banded, _ = attributes.bands(parts)
  return [_LOCAL if band else _GLOBAL for band in banded]


def _local_attention(parts: Parts) -> Any:
  _, window = attributes.bands(parts)
  return OMITTED if window is None else 2 * (window - 1)


def rotary_bindings(found: Mapping[str, Any]) -> dict[str, float]:
  """The bindings of `Rotary`, of layers that see all and of the others.

  Raises:
    UserError: The positions are stretched, or of other layers.
  """
  kind, given = found["model_type"], found["rope_parameters"] or {}
  thetas = {name: found[attribute] for name, attribute in _THETAS.items()}
  for name, table in given.items():
    attributes.check_allowed(kind, "rope_parameters", name, _THETAS)
    attributes.check_type(kind, name, table, dict)
    turns = table.get("rope_type", "default")
    attributes.check_allowed(kind, "rope_type", turns, ("default",))
    theta = table.get("rope_theta", thetas[name])
    attributes.check_type(kind, "rope_theta", theta, float)
    thetas[name] = float(theta)
  return {
    "Rotary.theta": thetas[_GLOBAL],
    "Rotary.local_theta": thetas[_LOCAL],
  }


def rope_parameters(parts: Parts) -> dict[str, Any]:
  """The tables of frequencies that new versions read."""
  rotary = parts.attention.rotary
  thetas = {_GLOBAL: rotary.theta, _LOCAL: rotary.local_theta or rotary.theta}
  return {
    name: {"rope_type": "default", "rope_theta": theta}
    for name, theta in thetas.items()
  }


def _head(parts: Parts) -> tuple[str, nn.Module] | None:
  """The name of the head and the head."""
  return next(iter(parts.heads.items()), None)


def _of_transform(path: str) -> Callable[[Parts], Any]:
  """`Attribute.of` what stands before the output of the head, if any."""

  def of(parts):
    if (head := _head(parts)) is None:
      return OMITTED
    name, part = head
    transform = part if name == "tokens" else parts.model.pooler
    if name in ("tags", "spans"):
      transform = part.transform
    return operator.attrgetter(path)(transform)

  return of


def _transform(found: Mapping[str, Any]) -> dict[str, str]:
  name = attributes.activation(found, "classifier_activation")
  part = {(): None, ("tokens",): "TransformedLogits"}.get(
    found["heads"], "Transform"
  )
  return {} if part is None else {f"{part}.activation": name}


def _bias_of_transform(found: Mapping[str, Any]) -> dict[str, bool]:
  if not found["heads"]:
    return {}
  return {"dense/Linear.use_bias": found["classifier_bias"]}


def _bias_of_softmax(found: Mapping[str, Any]) -> dict[str, bool]:
  if found["heads"] != ("tokens",):
    return {}
  part = "TiedLogits" if found["tie_word_embeddings"] else "logits/Linear"
  return {f"{part}.use_bias": found["decoder_bias"]}


def _has_bias_of_softmax(parts: Parts) -> Any:
  if "tokens" not in parts.heads:
    return OMITTED
  softmax = parts.heads["tokens"].softmax
  return getattr(softmax, "logits_dense", softmax).use_bias


def _averages(found: Mapping[str, Any]) -> dict[str, bool]:
  if not any(name in bert.OF_TEXTS for name in found["heads"]):
    return {}
  pooling = found["classifier_pooling"]
  attributes.check_allowed(
    found["model_type"], "classifier_pooling", pooling, ("cls", "mean")
  )
  return {"EncoderOnly.averages": pooling == "mean"}


def _pooling(parts: Parts) -> Any:
  if not any(name in bert.OF_TEXTS for name in parts.heads):
    return OMITTED
  return "mean" if parts.model.averages else "cls"


# Those of the layers of encoders and decoders.
OF_LAYERS = (
  Attribute("hidden_activation", "gelu", "GatedMlp.activation"),
  Attribute("norm_eps", 1e-5, "LayerNorm.epsilon"),
  Attribute("norm_bias", False, "LayerNorm.use_bias"),
  Attribute(
    "attention_bias",
    False,
    [f"{name}/Linear.use_bias" for name in ("query", "key", "value", "out")],
    "attention.query.use_bias",
  ),
  Attribute(
    "mlp_bias",
    False,
    ("wi/Linear.use_bias", "wo/Linear.use_bias"),
    "mlp.wo.use_bias",
  ),
  Attribute("global_attn_every_n_layers", 3),
  Attribute("global_rope_theta", 160000.0),
  Attribute("local_rope_theta", 10000.0),
  Attribute(
    "rope_parameters", None, rotary_bindings, rope_parameters, kind=dict
  ),
  Attribute("embedding_dropout", 0.0, "embedding/Dropout.rate"),
  Attribute("mlp_dropout", 0.0, "hidden/Dropout.rate"),
)
_ATTRIBUTES = bert.COMMON.changed(
  *OF_LAYERS,
  Attribute("decoder_bias", True, _bias_of_softmax, _has_bias_of_softmax),
  Attribute("layer_types", None, _windows, layer_types, kind=list),
  Attribute("local_attention", 128, of=_local_attention),
  bert.dropout_of_heads(
    "classifier_dropout", 0.0, (*bert.OF_TEXTS, "tags", "spans")
  ),
  Attribute(
    "classifier_bias",
    False,
    _bias_of_transform,
    _of_transform("dense.use_bias"),
  ),
  Attribute(
    "classifier_activation",
    "gelu",
    _transform,
    _of_transform("activation"),
    values=attributes.ACTIVATIONS,
  ),
  Attribute("classifier_pooling", "cls", _averages, _pooling),
  without=(
    *("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob"),
  ),
  allowed={
    "attention_dropout": (0,),
    "position_embedding_type": ("absolute",),
    "rope_scaling": (None,),
  },
  without_effect=(
    "max_position_embeddings initializer_cutoff_factor reference_compile "
    "sparse_prediction sparse_pred_ignore_index deterministic_flash_attn "
    f"repad_logits_with_grad layer_norm_eps {bert.HAS_POOLER}"
  ).split(),
  vocab_size=50368,
  intermediate_size=1152,
  num_hidden_layers=22,
  pad_token_id=50283,
)


class Modernbert(bert.Bert):
  """See `Family`."""

  def bindings_of(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    bound = super().bindings_of(found)
    return bound if found["heads"] else bound | {"EncoderOnly.pooler": None}

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`; the embeddings' norm serves the first attention."""
    return without_absent_norms(
      super().links(config),
      "encoder/layers_0/pre_attention_layer_norm",
      has_bias=self.read(config)["norm_bias"],
    )

  def links_inside(
    self, found: Mapping[str, Any], theirs: str, ours: str
  ) -> Iterator[Link]:
    """See `Family`."""
    attention = [f"{ours}attention/{n}" for n in ("query", "key", "value")]
    yield from _side_by_side(
      f"{theirs}attn.Wqkv", attention, bias=found["attention_bias"]
    )
    yield from gate_and_value(found, theirs, ours)

  def links_of_heads(self, found: Mapping[str, Any]) -> Iterator[Link]:
    """See `Family`."""
    for name in found["heads"]:
      transform = f"heads/{name}"
      if name in bert.OF_TEXTS:
        transform = "pooler"
      elif name != "tokens":
        transform += "/transform"
      yield from links_lib.linear(
        "head.dense", f"{transform}/dense", bias=found["classifier_bias"]
      )
      yield from links_lib.layer_norm("head.norm", f"{transform}/norm")
      if name != "tokens":
        yield from links_lib.linear("classifier", f"heads/{name}/out")
      elif not found["tie_word_embeddings"]:
        yield from links_lib.linear(
          "decoder", "heads/tokens/logits_dense", bias=found["decoder_bias"]
        )
      elif found["decoder_bias"]:
        yield Link("decoder.bias", ("heads/tokens/logits_bias",))

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
    """See `Bert`; biases and norms do not identify a class."""
    known = ("head.dense.weight", "classifier.weight", "decoder.weight")
    kept = [n for n in stored if n.startswith(self.prefix) or n in known]
    return super()._stored_class(config, kept)


def without_absent_norms(
  links: Sequence[Link], first: str, *, has_bias: bool
) -> list[Link]:
  """Returns links but those of norms, or of their biases, that are not there.

  Args:
    links: Links of all layers.
    first: The norm of the first layer, which the embeddings' stands for.
    has_bias: Whether norms have biases.
  """
  return [
    link
    for link in links
    if not link.ours[0].startswith(f"{first}/")
    and (has_bias or not link.ours[0].endswith("norm/bias"))
  ]


def gate_and_value(
  found: Mapping[str, Any], theirs: str, ours: str
) -> Iterator[Link]:
  """`Family.links_inside` of the gate and the value, which are one matrix."""
  names = [f"{ours}mlp/{name}" for name in ("wi_0", "wi_1")]
  yield from _side_by_side(f"{theirs}mlp.Wi", names, bias=found["mlp_bias"])


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
    heads=bert.WITHOUT_PAIRS,
    attributes=_ATTRIBUTES,
    prefix="model.",
    tokens={"softmax": "decoder"},
    outside={
      "token_embedder/embedding": "embeddings.tok_embeddings",
      "encoder/input_norm": "embeddings.norm",
      "encoder/encoder_norm": "final_norm",
    },
    layer_list="layers",
    layer={
      "pre_attention_layer_norm": "attn_norm",
      "attention/out": "attn.Wo",
      "pre_mlp_layer_norm": "mlp_norm",
      "mlp/wo": "mlp.Wo",
    },
    architecture_file="architectures/modernbert.gin",
    has_pooler=False,
  ),
)
