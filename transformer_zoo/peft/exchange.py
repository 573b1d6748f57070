"""Methods in directories of other libraries, as the file of a method sees them.

`conversion` opens and writes these directories. The file of a method says which
settings and tensors of theirs are its own: `read` takes them from a
`Directory`, and `write` makes them of a `Trained` model. Tensors of theirs are
named after the modules of a class of `transformers`; where several projections
of ours are one matrix of theirs (GPT-2's c_attn), a module has several places.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import dataclasses
import re
from typing import Any, NamedTuple

from flax import linen as nn
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.tensors.lazy_tensors import Tensor

PEFT, ADAPTERS = "peft", "adapters"
CONFIG = "adapter_config.json"


class Module(NamedTuple):
  """A module of a class of `transformers` that has a matrix.

  Attributes:
    name: Its name, `transformer.h.0.attn.c_attn`.
    places: The paths of our projections in its matrix, in their order.
  """

  name: str
  places: tuple[str, ...]


class Imported(NamedTuple):
  """A method that a directory describes.

  Attributes:
    gin_file: The gin file of the method, under `gin_configs`.
    bindings: The bindings after it.
    parameters: The parameters that it adds to a base, by our names.
  """

  gin_file: str
  bindings: Mapping[str, Any]
  parameters: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Directory:
  """An open directory, each tensor of which is taken once.

  Attributes:
    name: Its path, quoted, for errors.
    settings: The settings in its adapter_config.json.
    sizes: The names of the settings that give shapes, for errors.
    base_name: The name of its base, for errors.
    tensors: The tensors that are not taken yet, by name.
    modules: The modules of the class of the base.
    prefix: The prefix of the family, which names may lack.
    base: The parameters of the base, by our names.
    activations: Our names of activations by theirs, for `adapters`.
  """

  name: str
  settings: Mapping[str, Any]
  sizes: Sequence[str]
  base_name: str | None
  tensors: dict[str, Tensor]
  modules: Sequence[Module]
  prefix: str
  base: Mapping[str, Tensor]
  activations: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def take(
    self, name: str, shapes: Sequence[tuple[int, ...]] | None
  ) -> np.ndarray | None:
    """Returns a tensor, float32, by its name with or without the prefix.

    Args:
      name: The name.
      shapes: The shapes that it may have by the settings and the base; None if
        these do not say it.

    Returns:
      None if there is no such tensor.

    Raises:
      UserError: It has another shape.
    """
    for known in (name, name.removeprefix(self.prefix)):
      if known in self.tensors:
        found = self.tensors.pop(known)
        if shapes is not None and found.shape not in shapes:
          raise self._misshaped(known, found.shape, shapes)
        return found.read().astype(np.float32)
    return None

  def require(self, name: str, shapes: Sequence[tuple[int, ...]]) -> np.ndarray:
    """As `take`, of a tensor that has to be there."""
    found = self.take(name, shapes)
    if found is None:
      raise UserError(f"{self.name} lacks the tensor {name}")
    return found

  def shape(self, name: str) -> tuple[int, ...]:
    """Returns the shape of a parameter of the base.

    Raises:
      UserError: The base has no such parameter.
    """
    if name not in self.base:
      raise UserError(
        f"{self.name} is of another base, {self.base_name!r}: this one has no "
        f"{name}"
      )
    return self.base[name].shape

  def widths(self, module: Module) -> tuple[int, list[int]]:
    """Returns the inputs of a module, and the outputs at each of its places."""
    shapes = [self.shape(f"{place}/kernel") for place in module.places]
    return shapes[0][0], [shape[-1] for shape in shapes]

  def fill(
    self,
    found: dict[str, np.ndarray],
    names: Sequence[str],
    unchanged: Callable[[int, int], Mapping[str, np.ndarray]],
  ) -> None:
    """Adds what changes nothing in the layers that a directory leaves out.

    Args:
      found: The parameters that are read, to which those are added.
      names: The names of the projections that have the method, `names_of`.
      unchanged: The function from the widths of a projection, in and out, to
        parameters that change nothing.
    """
    for kernel, tensor in self.base.items():
      place = kernel.removesuffix("/kernel")
      if place != kernel and names_of([place])[0] in names:
        for name, value in unchanged(*tensor.shape).items():
          found.setdefault(f"{place}/{name}", value)

  def _misshaped(self, name, shape, allowed) -> UserError:
    sizes = ", ".join(f"{size} = {self.settings[size]}" for size in self.sizes)
    return UserError(
      f"{self.name} is of another base, {self.base_name!r}, or damaged: its "
      f"{name} has the shape {tuple(shape)}, and by {CONFIG} ({sizes}) and "
      f"this base it has {' or '.join(map(str, allowed[:2]))}"
    )


class Trained:
  """A trained model with a method, whose arrays are read when asked for.

  Attributes:
    name: The path of its run, quoted, for errors.
    model: The model.
    tensors: Its parameters by name, layers unstacked.
    added: A regular expression that matches the parameters of the method.
    modules: The modules of the class of its base.
    own: The names of the parameters that its base has not, or has with other
      values, but for the method: heads, a pooler, norms that were trained.
    converter_field: The function from the name of a field of the run's
      converter to its value, None if the converter has no such field.
  """

  def __init__(
    self,
    name: str,
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    added: str,
    modules: Sequence[Module],
    own: Collection[str],
    converter_field: Callable[[str], Any],
  ):
    self.name, self.model, self.tensors = name, model, tensors
    self.added, self.modules, self.own = added, modules, own
    self.converter_field = converter_field
    self._read = {}

  def __getitem__(self, name: str) -> np.ndarray:
    """Returns a parameter, float32."""
    if name not in self._read:
      self._read[name] = self.tensors[name].read().astype(np.float32)
    return self._read[name]

  def __contains__(self, name: str) -> bool:
    """Whether there is a parameter of a name."""
    return name in self.tensors

  def below(self, path: str) -> dict[str, np.ndarray]:
    """Returns the parameters below a path, by their names there."""
    names = [name for name in self.tensors if name.startswith(f"{path}/")]
    return {name.removeprefix(f"{path}/"): self[name] for name in names}

  def check_written(self, library: str) -> None:
    """Checks that every parameter of the method has been read.

    Args:
      library: The library that it is written for.

    Raises:
      UserError: One is at a place that the class of the base has no module for.
    """
    for name in self.tensors:
      if re.fullmatch(self.added, name) and name not in self._read:
        raise UserError(
          f"{self.name} has {name}, and the class of its base has no module "
          f"with that matrix, so that `{library}` cannot hold it; train the "
          "method without it to exchange it"
        )

  def output_width(self, place: str) -> int:
    """Returns the number of outputs of a projection."""
    return self.tensors[f"{place}/kernel"].shape[1]

  @property
  def is_fused(self) -> bool:
    """Whether the class has matrices that are several of ours."""
    return any(len(module.places) > 1 for module in self.modules)

  def sizes(self) -> dict[str, int]:
    """Returns the settings of `peft` on a stack before which vectors are."""
    *_, transformer = self.model.offers.transformers.values()
    stack = transformer.layer_stack
    layer = stack.layer
    attention = getattr(layer, "self_attention", None) or layer.attention
    return {
      "num_layers": stack.num_layers,
      "num_attention_heads": attention.num_heads,
    }


# What a method writes: its settings, and tensors by their names.
Written = tuple[dict[str, Any], dict[str, np.ndarray]]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Exchange:
  """The directories of a library that hold a method.

  Attributes:
    library: `PEFT` or `ADAPTERS`.
    kind: The library's name of the method: the `peft_type` of `peft`, the
      `architecture` of `adapters`.
    read: The function that reads a directory.
    write: The function that makes the settings and tensors of one.
    sizes: The settings that have to be numbers above 0, for `peft`.
    values: The settings that change what is computed, with the values that are
      read.
    others: A regular expression that matches the settings that `read` reads or
      that change nothing: settings of training, of the base, and what the names
      of tensors say.
    wraps_modules: Whether tensors have the names of modules, before which
      `peft` puts a prefix.
  """

  library: str
  kind: str | None
  read: Callable[[Directory], Imported]
  write: Callable[[Trained], Written]
  sizes: Sequence[str] = ()
  values: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
  others: str = ""
  wraps_modules: bool = True


def names_of(places: Iterable[str]) -> list[str]:
  """Returns the names of parts at paths, one for all layers of a stack."""
  return list(
    dict.fromkeys(re.sub(r"\blayers_\d+/", "layers/", p) for p in places)
  )


def expression_of(names: Sequence[str]) -> str:
  """Returns a regular expression that matches names of parts alone."""
  return "|".join(map(re.escape, names)).replace("\\", "") or "none"
