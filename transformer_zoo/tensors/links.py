"""Links between the tensors of another checkpoint and our parameters.

A family of models is a list of `Link`s. The same list reads a checkpoint,
writes one, and gives the tests their oracle.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
import dataclasses
import re
from typing import Protocol

import numpy as np

from transformer_zoo.tensors.lazy_tensors import Tensor


class Layout(Protocol):
  """The layout of one or several of our tensors in one of theirs.

  Both directions return views where they can. Shapes are learnt by splitting
  an array without contents, so neither may look at values.
  """

  def split(self, theirs: np.ndarray) -> Sequence[np.ndarray]:
    """Returns our tensors, in the order of `Link.ours`."""

  def join(self, ours: Sequence[np.ndarray]) -> np.ndarray:
    """Returns their tensor."""


@dataclasses.dataclass(frozen=True)
class AsIs:
  """One tensor, the same on both sides."""

  def split(self, theirs):
    return (theirs,)

  def join(self, ours):
    return ours[0]


@dataclasses.dataclass(frozen=True)
class Transposed:
  """A matrix that PyTorch keeps as (out, in)."""

  def split(self, theirs):
    return (theirs.T,)

  def join(self, ours):
    return ours[0].T


@dataclasses.dataclass(frozen=True)
class OneRow:
  """A vector that is kept as a matrix of one row."""

  def split(self, theirs):
    return (theirs[0],)

  def join(self, ours):
    return ours[0][None]


@dataclasses.dataclass(frozen=True)
class ZeroRow:
  """A table of one row of zeros, as wide as ours, that holds nothing of ours.

  Its link is only written.
  """

  def split(self, theirs):
    return ()

  def join(self, ours):
    return np.zeros_like(ours[0][:1])


@dataclasses.dataclass(frozen=True)
class SideBySide:
  """Several of ours as equal parts of one of theirs.

  Attributes:
    number: The number of our tensors.
    axis: The axis of their tensor along which ours lie one after the other.
    transposed: Whether each is a matrix kept as (out, in).
  """

  number: int
  axis: int = -1
  transposed: bool = False

  def split(self, theirs):
    parts = np.split(theirs, self.number, axis=self.axis)
    return [part.T for part in parts] if self.transposed else parts

  def join(self, ours):
    parts = [part.T for part in ours] if self.transposed else ours
    return np.concatenate(parts, axis=self.axis)


@dataclasses.dataclass(frozen=True)
class HeadByHead:
  """Several of ours in one of theirs, as (out, in), head by head.

  The rows of the first head of each of ours come first, then the rows of the
  second head of each; biases too.

  Attributes:
    heads: The number of heads.
    number: The number of our tensors.
  """

  heads: int
  number: int = 3

  def split(self, theirs):
    by_head = theirs.reshape(self.heads, self.number, -1, *theirs.shape[1:])
    return [
      by_head[:, i].reshape(-1, *theirs.shape[1:]).T for i in range(self.number)
    ]

  def join(self, ours):
    by_head = [
      part.T.reshape(self.heads, -1, *part.T.shape[1:]) for part in ours
    ]
    joined = np.stack(by_head, axis=1)
    return joined.reshape(-1, *joined.shape[3:])


@dataclasses.dataclass(frozen=True)
class Link:
  """One tensor of theirs and our parameters in it.

  Attributes:
    theirs: The name of the tensor in their checkpoint.
    ours: The names of our parameters, every layer by itself whether a model
      scans them or not: `decoder/layers_3/self_attention/key/kernel`. A number
      in brackets is a place along the first axis of a parameter, one of several
      tensors of theirs: `mlp/expert/wi/kernel[7]`.
    layout: The layout of our parameters in the tensor.
    only_written: Whether the tensor is written and not read: their class has it
      and computes nothing by it, or has it under another name too.
  """

  theirs: str
  ours: tuple[str, ...]
  layout: Layout = AsIs()
  only_written: bool = False


def linear(theirs: str, ours: str, *, bias: bool = True) -> Iterator[Link]:
  """Links of a `torch.nn.Linear`, which keeps its matrix as (out, in)."""
  yield Link(f"{theirs}.weight", (f"{ours}/kernel",), Transposed())
  if bias:
    yield Link(f"{theirs}.bias", (f"{ours}/bias",))


def of_table(
  names: Mapping[str, str],
  theirs: str = "",
  ours: str = "",
  *,
  without_bias: Collection[str] = (),
) -> Iterator[Link]:
  """Links of tables, scales, norms and linear maps, recognised by our names.

  Args:
    names: Their name of each by ours, "mlp/wi"; our name of a table ends with
      "embedding", of a scale with "scale", of a norm with "norm".
    theirs: What stands before each of their names.
    ours: What stands before each of ours.
    without_bias: Our names of the linear maps that have none.
  """
  for name, their_name in names.items():
    pair = theirs + their_name, ours + name
    if name.endswith(("embedding", "scale")):
      yield Link(f"{pair[0]}.weight", (pair[1],))
    elif name.endswith("norm"):
      yield from layer_norm(*pair)
    else:
      yield from linear(*pair, bias=name not in without_bias)


def conv1d(theirs: str, ours: Sequence[str]) -> Iterator[Link]:
  """Links of a `Conv1D` of `transformers`, (in, out), ours side by side."""
  layout = SideBySide(len(ours))
  yield Link(
    f"{theirs}.weight", tuple(f"{name}/kernel" for name in ours), layout
  )
  yield Link(f"{theirs}.bias", tuple(f"{name}/bias" for name in ours), layout)


def layer_norm(theirs: str, ours: str) -> Iterator[Link]:
  """Links of a `torch.nn.LayerNorm`."""
  yield Link(f"{theirs}.weight", (f"{ours}/scale",))
  yield Link(f"{theirs}.bias", (f"{ours}/bias",))


def parameters_of(links: Iterable[Link]) -> set[str]:
  """The names of our parameters in links."""
  return {_place(name)[0] for link in links for name in link.ours}


def joined(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
  """Tensors whose places along a first axis are one parameter."""
  whole, parts = {}, {}
  for name, tensor in found.items():
    base, place = _place(name)
    if place is None:
      whole[name] = tensor
      continue
    own = parts.setdefault(base, {})
    own[place] = tensor
    stacked = [own[index] for index in sorted(own)]

    def read(stacked=stacked):
      return np.stack([each.read() for each in stacked])

    whole[base] = Tensor((len(own), *tensor.shape), tensor.dtype, read)
  return whole


def _place(name: str) -> tuple[str, int | None]:
  """The name of a parameter and a place along its first axis, or None."""
  match = re.fullmatch(r"(.+)\[(\d+)\]", name)
  return (name, None) if match is None else (match[1], int(match[2]))


def _at_place(ours: Mapping[str, Tensor], name: str) -> Tensor:
  """Our tensor, or what lies at one place of it."""
  base, place = _place(name)
  whole = ours[base]
  if place is None:
    return whole
  return Tensor(whole.shape[1:], whole.dtype, lambda: whole.read()[place])


def to_ours(
  links: Iterable[Link], theirs: Mapping[str, Tensor]
) -> dict[str, Tensor]:
  """Our parameters, each read from the tensor of theirs that holds it.

  Those of one tensor follow each other; read in this order, they read it once.
  `joined` makes parameters of those that lie in several tensors.
  """
  found = {}
  last = _LastSplit()
  for link in links:
    if link.only_written:
      continue
    source = theirs[link.theirs]
    if link.layout == AsIs():
      found[link.ours[0]] = source  # It can still be read in parts.
      continue
    hollow = np.broadcast_to(np.zeros((), source.dtype), source.shape)
    for part, (name, shaped) in enumerate(
      zip(link.ours, link.layout.split(hollow), strict=True)
    ):

      def read(link=link, source=source, part=part):
        return last.split(link, source)[part]

      found[name] = Tensor(shaped.shape, source.dtype, read)
  return found


class _LastSplit:
  """Keeps the last tensor that holds several of ours, for the next of them."""

  def __init__(self):
    self._kept: tuple[Link | None, Sequence[np.ndarray]] = (None, ())

  def split(self, link: Link, source: Tensor) -> Sequence[np.ndarray]:
    """Returns the parts of a tensor of theirs."""
    last_link, parts = self._kept  # One look: others may read in threads.
    if last_link is link:
      return parts
    self._kept = parts = None, ()  # Neither is held while the next is read.
    parts = link.layout.split(source.read())
    if len(link.ours) > 1:
      self._kept = link, parts
    return parts


class _Reads(Sequence):
  """Arrays that are read when a layout takes them, one by one."""

  def __init__(self, sources: Sequence[Tensor]):
    self._sources = sources

  def __len__(self):
    return len(self._sources)

  def __getitem__(self, index):
    return self._sources[index].read()


def to_theirs(
  links: Iterable[Link], ours: Mapping[str, Tensor]
) -> dict[str, Tensor]:
  """Their tensors, each joined from our tensors that it holds."""
  found = {}
  for link in links:
    sources = [_at_place(ours, name) for name in link.ours]
    dtype = sources[0].dtype
    hollow = [np.broadcast_to(np.zeros((), dtype), s.shape) for s in sources]

    def read(link=link, sources=sources):
      return link.layout.join(_Reads(sources))

    found[link.theirs] = Tensor(link.layout.join(hollow).shape, dtype, read)
  return found
