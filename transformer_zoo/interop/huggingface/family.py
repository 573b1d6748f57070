"""Families of Hugging Face models: configuration and links of tensors."""

from collections.abc import Collection, Mapping, Sequence
import dataclasses
from typing import Any, Protocol

from flax import linen as nn

from transformer_zoo.tensors.links import Link


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


class Family(Protocol):
  """A kind of model: its configuration, and where its tensors lie.

  Attributes:
    model_types: The values of `model_type` in config.json that it reads.
    ignored: The regular expressions of tensors that carry no parameters, such
      as buffers with masks; they match whole names.
    prefix: The prefix of the names of all tensors but the head, which a file of
      the bare model lacks: 'transformer.'; may be empty.
  """

  model_types: Sequence[str]
  ignored: Sequence[str]
  prefix: str

  def aliases(self, config: Mapping[str, Any]) -> Mapping[str, str | None]:
    """Names of tensors that are another one (tied weights), and its name.

    One that is there and equal, or in the place of the other, is that one; it
    is not written. The table of the softmax is an alias too where a config may
    tie it. None stands for zeros: such a tensor carries nothing if it is 0.
    """

  def settle(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> dict[str, Any]:
    """Completes a config.json by the tensors of its files.

    `transformers` 5 ties a softmax that the configuration ties, T5's always,
    but for a file that has a matrix of other values for it.

    Args:
      config: The contents of the config.json.
      stored: The names of the tensors, without aliases that equal another.
    """

  def left_out(
    self, config: Mapping[str, Any], stored: Collection[str]
  ) -> Collection[str]:
    """The tensors that are not read, of heads that the class has not.

    A family that has no such method reads all.

    Args:
      config: The contents of a settled config.json.
      stored: The names of the tensors.
    """

  def num_layers(self, config: Mapping[str, Any]) -> int:
    """The number of layers of a config.json, those of all stacks together.

    Raises:
      UserError: See `architecture`; nothing is as long as the model is deep.
    """

  def architecture(self, config: Mapping[str, Any]) -> Architecture:
    """Our model of a config.json, whose defaults the family knows.

    Raises:
      UserError: An attribute is unknown or asks for what is not built here;
        the sentence names it.
    """

  def config(self, model: nn.Module) -> dict[str, Any]:
    """The config.json of one of our models.

    Raises:
      UserError: Their class cannot compute what the model computes.
    """

  def links(self, config: Mapping[str, Any]) -> list[Link]:
    """All parameters of the model of a config.json."""
