"""Links between the parameters of T5X's networks and ours.

Most names are the same. Of T5X `examples/t5`, `examples/decoder_only` and
`examples/scalable_t5`, and of Flaxformer's T5, these differ:

- a scanned stack is `encoder/encoder/...`, its layers along axis 1, and its
  attention kernels have an axis of heads;
- a bias of every layer stands beside its attention, not in it;
- a decoder-only model has its embedder under `decoder`;
- Flaxformer may have that axis without a scan too.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import math
import re

import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.tensors.links import Link

# A layer's number, in names of parameters that are stacked.
EVERY = "layers_*"
_BESIDE = re.compile(r"(encoder|decoder)/(layers[^/]*)/relpos_bias/(.+)")
_WITHIN = re.compile(
  r"(encoder|decoder)/(layers[^/]*)/(?:self_)?attention/relpos_bias/(.+)"
)
_SCANNED = re.compile(r"(encoder|decoder)/(\1|layers)/(.+)")
_LAYER = re.compile(r"(encoder|decoder)/layers_(\d+)/(.+)")
_BIAS = "relpos_bias/rel_embedding"

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Layers:
  """Ours, each reshaped, along an axis of theirs.

  Attributes:
    theirs: shape of one layer in their tensor.
    ours: shape of one of our tensors.
    axis: The axis of their tensor along which the layers lie; None if it holds
      one layer.
  """

  theirs: Shape
  ours: Shape
  axis: int | None = None

  def split(self, theirs):
    layers = (
      (theirs,) if self.axis is None else np.moveaxis(theirs, self.axis, 0)
    )
    return [layer.reshape(self.ours) for layer in layers]

  def join(self, ours):
    if self.axis is None:
      return ours[0].reshape(self.theirs)
    shape, first = self.whole(len(ours)), ours[0]
    if not any(first.strides):  # Without contents: none are made.
      return np.broadcast_to(np.zeros((), first.dtype), shape)
    joined = np.empty(shape, first.dtype)
    layers = np.moveaxis(joined, self.axis, 0)
    for i in range(len(ours)):
      layer = ours[i] if i else first
      layers[i] = layer.reshape(self.theirs)
    return joined

  def whole(self, number: int) -> Shape:
    """The shape of their tensor, with so many layers."""
    if self.axis is None:
      return self.theirs
    return (*self.theirs[: self.axis], number, *self.theirs[self.axis :])


@dataclasses.dataclass(frozen=True)
class Parameter:
  """One parameter of theirs.

  Attributes:
    theirs: The name of the parameter in their tree.
    ours: our name, with `layers_*` where it holds all layers.
    shape: The shape of their tensor.
    layers: the axis of the layers, or None.
  """

  theirs: str
  ours: str
  shape: Shape
  layers: int | None

  @property
  def own_axes(self) -> Shape:
    """Axes of their tensor but for the axis of the layers."""
    return tuple(i for i in range(len(self.shape)) if i != self.layers)

  @property
  def row_axes(self) -> Shape:
    """Axes of theirs that are our first, where ours is a matrix."""
    own = self.own_axes
    if len(own) == 3 and self.ours.endswith("out/kernel"):
      return own[:2]
    return own[:1]

  @property
  def column_axes(self) -> Shape:
    """Axes of theirs that are our last, where ours is a matrix."""
    return tuple(i for i in self.own_axes if i not in self.row_axes)

  @property
  def names(self) -> tuple[str, ...]:
    """Our names, one for each layer."""
    if self.layers is None:
      return (self.ours,)
    return tuple(
      self.ours.replace(EVERY, f"layers_{i}")
      for i in range(self.shape[self.layers])
    )

  def link(
    self,
    prefix: str,
    theirs: str = "",
    ours: str = "",
    axes: Sequence[int] | None = None,
  ) -> Link:
    """The link of a tensor that has all, or some, of the parameter's axes.

    Args:
      prefix: The text before the parameter's name on their side: 'target/'.
      theirs: The text after the parameter's name on their side.
      ours: The text after our names.
      axes: The axes of `own_axes` that the tensor has; None for all.
    """
    axes = self.own_axes if axes is None else axes
    kept = [i for i in range(len(self.shape)) if i in axes or i == self.layers]
    sides = [
      [self.shape[i] for i in side if i in axes]
      for side in (self.row_axes, self.column_axes)
    ]
    layout = Layers(
      theirs=tuple(self.shape[i] for i in axes),
      ours=tuple(math.prod(side) for side in sides if side),
      axis=None if self.layers is None else kept.index(self.layers),
    )
    return Link(
      f"{prefix}{self.theirs}{theirs}",
      tuple(f"{name}{ours}" for name in self.names),
      layout,
    )


def of_theirs(shapes: Mapping[str, Shape]) -> list[Parameter]:
  """Recognises the parameters of a T5X network.

  Args:
    shapes: The shapes of all parameters of the network, by their names in the
      tree.

  Raises:
    UserError: a parameter has more axes than one of ours can have.
  """
  scan_axis = _scan_axis(shapes)
  found = []
  for theirs, shape in shapes.items():
    ours, layers = theirs, None
    if match := _SCANNED.fullmatch(theirs):
      stack, scope, rest = match.groups()
      ours = f"{stack}/{EVERY}/{rest}"
      layers = 0 if scope == "layers" else scan_axis
    parameter = Parameter(theirs, our_name(ours), tuple(shape), layers)
    with_heads = re.search(r"(query|key|value|out)/kernel$", ours)
    if not 1 <= len(parameter.own_axes) <= (3 if with_heads else 2):
      raise UserError(
        f"the parameter {theirs!r} of the T5X checkpoint has the shape {shape};"
        " what can be read are vectors, matrices and the heads of attentions"
      )
    found.append(parameter)
  return found


def _scan_axis(shapes) -> int:
  """T5X's `param_scan_axis`: 1, or 0 where the scales of a stack show it."""
  widths = {
    shape[-1]
    for name, shape in shapes.items()
    if name.endswith("token_embedder/embedding")
  }
  vectors = {
    tuple(shape)
    for name, shape in shapes.items()
    if _SCANNED.fullmatch(name) and len(shape) == 2 and name.endswith("scale")
  }
  first = any(
    shape[0] not in widths and shape[1] in widths for shape in vectors
  )
  return 0 if first else 1


def our_name(theirs: str) -> str:
  """Our name of a parameter of theirs, `layers`, `layers_0` staying so."""
  if match := _BESIDE.fullmatch(theirs):
    stack, layer, rest = match.groups()
    attention = "attention" if stack == "encoder" else "self_attention"
    return f"{stack}/{layer}/{attention}/relpos_bias/{rest}"
  return theirs.replace("decoder/token_embedder/", "token_embedder/")


def their_name(ours: str, *, decoder_only: bool) -> str:
  """The inverse of `our_name`, in a model with an encoder or without."""
  if match := _WITHIN.fullmatch(ours):
    return "/".join([match[1], match[2], "relpos_bias", match[3]])
  if decoder_only:
    return re.sub("^token_embedder/", "decoder/token_embedder/", ours)
  return ours


def of_ours(
  shapes: Mapping[str, Shape], *, scanned: bool = False
) -> list[Parameter]:
  """The parameters of the T5X network that ours make up.

  Args:
    shapes: The shapes of all of our parameters, layers unstacked.
    scanned: whether its layers are scanned (`examples/scalable_t5`).

  Raises:
    UserError: its layers cannot be scanned.
  """
  decoder_only = not any(
    name.startswith("encoder/") or "encoder_decoder_attention" in name
    for name in shapes
  )
  if scanned:
    return _scanned(shapes)
  return [
    Parameter(their_name(name, decoder_only=decoder_only), name, shape, None)
    for name, shape in shapes.items()
  ]


def _scanned(shapes: Mapping[str, Shape]) -> list[Parameter]:
  """Layers along axis 1, heads as an axis of their own.

  A bias that layers share stays where it is, as Flaxformer has it; T5X's own
  scanned network has one in every layer.
  """
  groups: dict[str, list[Shape]] = {}
  for name, shape in shapes.items():
    match = _LAYER.fullmatch(name)
    group = f"{match[1]}/{EVERY}/{match[3]}" if match else name
    groups.setdefault(group, []).append(shape)
  found = []
  for ours, layers in groups.items():
    theirs = their_name(ours, decoder_only=False)
    if EVERY not in ours:
      found.append(Parameter(theirs, ours, layers[0], None))
      continue
    stack = ours.partition("/")[0]
    layer = f"{stack}/{EVERY}"
    out = "attention" if stack == "encoder" else "self_attention"
    biases = [
      *groups.get(f"{layer}/{out}/{_BIAS}", ()),
      *groups.get(f"{stack}/{_BIAS}", ()),
    ]
    depth = len(groups.get(f"{layer}/{out}/out/kernel", ()))
    if set(layers) != {layers[0]} or len(layers) != depth or not biases:
      raise UserError(
        "T5X scans equal layers that have biases by distance, and the layers "
        f"of this {stack} differ ({ours}); write the checkpoint unscanned"
      )
    head_dim = groups[f"{layer}/{out}/out/kernel"][0][0] // biases[0][0]
    first, *rest = _with_heads(ours, layers[0], head_dim)
    shape = (first, len(layers), *rest)
    found.append(Parameter(theirs.replace(EVERY, stack), ours, shape, 1))
  return found


def _with_heads(ours: str, shape: Shape, head_dim: int) -> Shape:
  """The shape of a layer's parameter in T5X's scanned network."""
  if re.search("attention/(query|key|value)/kernel$", ours):
    return (shape[0], shape[1] // head_dim, head_dim)
  if ours.endswith("attention/out/kernel"):
    return (shape[0] // head_dim, head_dim, shape[1])
  return shape
