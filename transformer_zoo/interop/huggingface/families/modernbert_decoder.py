"""ModernBERT's decoders (`modernbert-decoder`), as Ettin has them.

A third of the layers sees all tokens before, the others the last ones alone.
Source: `models/modernbert_decoder` of `transformers`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attribute
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.attributes import OMITTED
from transformer_zoo.interop.huggingface.families import llama
from transformer_zoo.interop.huggingface.families import modernbert
from transformer_zoo.interop.huggingface.family import LanguageModel
from transformer_zoo.interop.huggingface.family import Reference
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link


def _windows(found: Mapping[str, Any]) -> dict[str, attributes.Windows]:
  # Half of them: the class has its name and default from the encoder's.
  windows = attributes.windows_of_layers(
    modernbert.layers_with_windows(found), found["local_attention"] // 2
  )
  return {"Windows.sizes": windows}


def _local_attention(parts) -> Any:
  width = llama.window(parts)
  return OMITTED if width is None else 2 * width


def _bias_of_softmax(found: Mapping[str, Any]) -> dict[str, bool]:
  part = "TiedLogits" if found["tie_word_embeddings"] else "logits/Linear"
  return {f"{part}.use_bias": found["decoder_bias"]}


def _has_bias_of_softmax(parts) -> bool:
  softmax = parts.softmax.softmax
  return getattr(softmax, "logits_dense", softmax).use_bias


_ATTRIBUTES = Attributes(
  (
    Attribute("vocab_size", 50368, "VOCAB_SIZE"),
    Attribute("hidden_size", 768, "EMBED_DIM"),
    Attribute("intermediate_size", 1152, "MLP_DIM"),
    Attribute("num_hidden_layers", 22, "NUM_DECODER_LAYERS"),
    attributes.heads(
      "num_attention_heads",
      12,
      "hidden_size",
      of=attributes.dividing("hidden_size"),
    ),
    *modernbert.OF_LAYERS,
    Attribute("decoder_bias", True, _bias_of_softmax, _has_bias_of_softmax),
    Attribute("layer_types", None, _windows, modernbert.layer_types, kind=list),
    Attribute("local_attention", 128, of=_local_attention),
    Attribute(
      "classifier_bias",
      False,
      "dense/Linear.use_bias",
      "softmax.transform.dense.use_bias",
    ),
    Attribute(
      "classifier_activation",
      "gelu",
      "Transform.activation",
      "softmax.transform.activation",
      values=attributes.ACTIVATIONS,
    ),
    Attribute("tie_word_embeddings", True, of=attributes.tied),
    attributes.padding("DecoderOnly.pad_id", 50283),
  ),
  allowed={
    "attention_dropout": (0,),
    "is_encoder_decoder": (False,),
    "rope_scaling": (None,),
  },
  # The class divides local_attention again; the last is of the class of texts.
  without_effect=(
    "max_position_embeddings initializer_cutoff_factor sliding_window "
    "classifier_dropout"
  ).split(),
)


class _ModernbertDecoder(LanguageModel):
  """See `LanguageModel`."""

  @property
  def head_names(self) -> Collection[str]:
    """See `Family`."""
    return ("lm_head.", f"{self.head}.")

  def gin_files(self, found: Mapping[str, Any]) -> tuple[str, ...]:
    """See `Family`; the softmax is inside of what makes logits."""
    del found
    return (self.architecture_file,)

  def bindings_of(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """See `Family`."""
    bound = super().bindings_of(found)
    if found["tie_word_embeddings"]:
      return bound
    return bound | {
      "LogitsOfTransform.softmax": Reference("@LinearLogits()"),
      "LinearLogits.logits_dense": Reference("@logits/Linear()"),
    }

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """See `Family`; the embeddings' norm serves the first attention."""
    return modernbert.without_absent_norms(
      super().links(config),
      "decoder/layers_0/pre_self_attention_layer_norm",
      has_bias=self.read(config)["norm_bias"],
    )

  def links_inside(
    self, found: Mapping[str, Any], theirs: str, ours: str
  ) -> Iterator[Link]:
    """See `Family`."""
    yield from modernbert.gate_and_value(found, theirs, ours)

  def links_of_heads(self, found: Mapping[str, Any]) -> Iterator[Link]:
    """See `Family`."""
    yield from links_lib.linear(
      "lm_head.dense",
      "decoder/transform/dense",
      bias=found["classifier_bias"],
    )
    yield from links_lib.layer_norm("lm_head.norm", "decoder/transform/norm")
    if not found["tie_word_embeddings"]:
      yield from links_lib.linear(
        self.head, "decoder/logits_dense", bias=found["decoder_bias"]
      )
    elif found["decoder_bias"]:
      yield Link(f"{self.head}.bias", ("decoder/logits_bias",))


FAMILIES = (
  _ModernbertDecoder(
    kind="modernbert-decoder",
    attributes=_ATTRIBUTES,
    prefix="model.",
    head="decoder",
    architecture_file="architectures/modernbert_decoder.gin",
    tokenizer_classes=("PreTrainedTokenizerFast",),
    written={"architectures": ["ModernBertDecoderForCausalLM"]},
    outside={
      "token_embedder/embedding": "embeddings.tok_embeddings",
      "decoder/input_norm": "embeddings.norm",
      "decoder/decoder_norm": "final_norm",
    },
    layer_list="layers",
    layer={
      "self_attention/query": "attn.q_proj",
      "self_attention/key": "attn.k_proj",
      "self_attention/value": "attn.v_proj",
      "self_attention/out": "attn.Wo",
      "pre_self_attention_layer_norm": "attn_norm",
      "pre_mlp_layer_norm": "mlp_norm",
      "mlp/wo": "mlp.Wo",
    },
  ),
)
