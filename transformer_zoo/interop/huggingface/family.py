"""Families of Hugging Face models: configuration and links of tensors."""

from collections.abc import Collection, Iterable, Mapping, Sequence
import dataclasses
from typing import Any

from flax import linen as nn

from transformer_zoo.interop.huggingface import attributes
from transformer_zoo.interop.huggingface.attributes import Attributes
from transformer_zoo.interop.huggingface.parts import Parts
from transformer_zoo.tensors import links as links_lib
from transformer_zoo.tensors.links import Link

HEAD = "lm_head.weight"


class Reference(str):
  """A reference to a configurable, '@target/Embed()', as a binding's value."""

  def __repr__(self) -> str:
    return str(self)


@dataclasses.dataclass(frozen=True)
class Architecture:
  """The configuration of one of our models.

  Attributes:
    gin_files: The gin files relative to `gin_configs`, in order:
      ('architectures/gpt_2.gin',).
    bindings: The gin bindings after them, macro or parameter -> value, whose
      `repr` gin reads: {'NUM_HEADS': 12, 'LayerNorm.epsilon': 1e-5}.
  """

  gin_files: tuple[str, ...]
  bindings: Mapping[str, Any]

  def as_overrides(self) -> list[str]:
    """The bindings as `config.load` and command lines have them."""
    return [f"{name}={value!r}" for name, value in self.bindings.items()]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
  """A kind of model: its configuration, and where its tensors lie.

  A family of its own is a value of one of the classes below or of `bert.Bert`,
  or a class that overrides what its list of attributes does not say.

  Attributes:
    kind: The value of `model_type` in config.json.
    attributes: The attributes of a config.json.
    prefix: The prefix of the names of all tensors but the head, which a file of
      the bare model lacks: 'transformer.'; may be empty.
    ignored: The regular expressions of tensors that carry no parameters, such
      as buffers with masks; they match whole names.
    architecture_file: The gin file of the architecture.
    bindings: The bindings of all its models.
    written: Attributes of every config.json that is written.
    tokenizer_classes: The classes that `AutoTokenizer` takes for such a model;
      in place of another one it takes the model's own, which cuts texts
      otherwise or fails. Empty if it takes any.
    layer_counts: The names of the attributes that count layers.
    side: The stack that the attributes describe, "encoder" or "decoder".
    outside: Their name of each table and norm before and after the layers,
      after the prefix, by ours.
    layer_list: The name of their list of layers, after the prefix.
    layer: Their name of each norm and linear map of a layer, by ours.
  """

  kind: str
  attributes: Attributes
  prefix: str = ""
  ignored: Sequence[str] = ()
  architecture_file: str = ""
  bindings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  written: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  layer_counts: Sequence[str] = ("num_hidden_layers",)
  side: str = "decoder"
  tokenizer_classes: Collection[str] = ()
  outside: Mapping[str, str] = dataclasses.field(default_factory=dict)
  layer_list: str = ""
  layer: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str | None]:
    """Names of tensors that are another one (tied weights), and its name.

    One that is there and equal, or in the place of the other, is that one; it
    is not written. The table of the softmax is an alias too where a config may
    tie it. None stands for zeros: such a tensor carries nothing if it is 0.
    """
    del config
    return {}

  def completed(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """Completes a config.json by the tensors of its files.

    `transformers` 5 ties a softmax that the configuration ties, T5's always,
    but for a file that has a matrix of other values for it.

    Args:
      config: The contents of the config.json.
      stored: The names of the tensors, without aliases that equal another.
    """
    del stored
    return dict(config)

  def left_out(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> Collection[str]:
    """The tensors that are not read, of heads that the class has not.

    Args:
      config: The contents of a completed config.json.
      stored: The names of the tensors.
    """
    del config, stored
    return ()

  def read(self, config: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a config.json, see `Attributes.read`."""
    return self.attributes.read(config)

  def first_fed(self, config: Mapping[str, Any]) -> int | None:
    """The id that a decoder beside an encoder is fed first; None for padding.

    Of a config.json without a `decoder_start_token_id`.
    """
    del config
    return None

  def as_written(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The contents of the file of a config.json that is complete."""
    return config

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """The number of layers of a config.json, in all stacks together.

    Raises:
      UserError: See `architecture`; nothing is as long as the model is deep.
    """
    found = self.read(config)
    return sum(found[name] for name in self.layer_counts)

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """Our model of a config.json, whose defaults the family knows.

    Raises:
      UserError: An attribute is unknown or asks for what is not built here;
        the sentence names it.
    """
    found = self.read(config)
    return Architecture(tuple(self.gin_files(found)), self.bindings_of(found))

  def config(self, model: nn.Module) -> dict[str, Any]:
    """The config.json of one of our models.

    Raises:
      UserError: Their class cannot compute what the model computes.
    """
    with attributes.counterpart(self.kind):
      return {
        "model_type": self.kind,
        **self.written,
        **self.attributes.described(self.parts_of(model)),
      }

  def layout(self, cls_place: str | None) -> dict[str, Any]:
    """The attributes that the rows of an encoder's run decide.

    Args:
      cls_place: Where [CLS] stands, "first" or "last"; None if it is not known.
    """
    del cls_place
    return {}

  def parts_of(self, model: nn.Module) -> Parts:
    """The parts of a model that the attributes describe."""
    return Parts(model, self.side, self.kind)

  def gin_files(self, found: Mapping[str, Any]) -> Sequence[str]:
    """The gin files of a model with these attributes."""
    del found
    return (self.architecture_file,)

  def bindings_of(self, found: Mapping[str, Any]) -> dict[str, Any]:
    """The bindings of a model with these attributes.

    Raises:
      UserError: See `architecture`.
    """
    return {**self.bindings, **self.attributes.bindings(found)}

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """All parameters of the model of a config.json."""
    found = self.read(config)
    links = [*self.links_outside(found)]
    unbiased = self._without_bias(found)
    for index, name in enumerate(self.layer_names(found)):
      theirs, ours = f"{self.prefix}{name}.", f"{self.side}/layers_{index}/"
      links += links_lib.of_table(
        self.layer, theirs, ours, without_bias=unbiased
      )
      links += self.links_inside(found, theirs, ours)
    return [*links, *self.links_of_heads(found)]

  @property
  def head_names(self) -> Collection[str]:
    """What the names of the tensors of heads begin with, not the prefix."""
    return ("lm_head.",)

  @property
  def word_table(self) -> str:
    """The name of the tensor with the embeddings of tokens."""
    return f"{self.prefix}{self.outside['token_embedder/embedding']}.weight"

  def links_outside(self, found: Mapping[str, Any]) -> Iterable[Link]:
    """Links of what stands before and after the layers."""
    del found
    return links_lib.of_table(self.outside, self.prefix)

  def layer_names(self, found: Mapping[str, Any]) -> Sequence[str]:
    """Their names of the layers that have parameters, after the prefix."""
    (number,) = self.layer_counts
    return [f"{self.layer_list}.{index}" for index in range(found[number])]

  def links_inside(
    self, found: Mapping[str, Any], theirs: str, ours: str
  ) -> Iterable[Link]:
    """Links of the tensors of a layer that `layer` cannot describe.

    Args:
      found: The attributes of the model.
      theirs: What stands before the names of their tensors.
      ours: What stands before the names of our parameters.
    """
    del found, theirs, ours
    return ()

  def links_of_heads(self, found: Mapping[str, Any]) -> Iterable[Link]:
    """Links of the heads of a model with these attributes."""
    del found
    return ()

  def _without_bias(self, found: Mapping[str, Any]) -> list[str]:
    """Our names of the linear maps of a layer whose bindings say so."""
    bound = self.bindings_of(found)
    return [
      name
      for name in self.layer
      if bound.get(f"{_scope(name)}/Linear.use_bias") is False
    ]


def _scope(name: str) -> str:
  """The scope in gin of a part of a layer: wi of mlp/wi_0."""
  return name.rpartition("/")[2].partition("_")[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModel(Family):
  """A decoder whose softmax may have the matrix of the embeddings.

  Attributes:
    has_own_softmax: Whether the softmax always has a matrix of its own, and a
      bias.
    head: Their name of the softmax.
  """

  has_own_softmax: bool = False
  head: str = "lm_head"

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str | None]:
    """See `Family`."""
    tied = {f"{self.head}.weight": self.word_table}
    return tied if self._says_tied(config) else {}

  def completed(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """See `Family`."""
    own = f"{self.head}.weight" in stored
    tied = self._says_tied(config) and not own
    return {**config, "tie_word_embeddings": tied}

  def gin_files(self, found: Mapping[str, Any]) -> Sequence[str]:
    """See `Family`."""
    if self.has_own_softmax:
      return (self.architecture_file,)
    softmax = "tied" if found["tie_word_embeddings"] else "untied"
    return (self.architecture_file, f"parts/softmax/{softmax}.gin")

  def links_of_heads(self, found: Mapping[str, Any]) -> Iterable[Link]:
    """See `Family`."""
    if found["tie_word_embeddings"]:
      return ()
    return links_lib.linear(
      self.head, "decoder/logits_dense", bias=self.has_own_softmax
    )

  def _says_tied(self, config: Mapping[str, Any]) -> bool:
    name = "tie_word_embeddings"
    return config.get(name, self.attributes[name].default)
