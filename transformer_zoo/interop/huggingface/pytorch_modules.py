"""Links of the parameters of PyTorch's modules with those of ours."""

from collections.abc import Iterator, Sequence

from transformer_zoo.interop.tensors.links import Link
from transformer_zoo.interop.tensors.links import SideBySide
from transformer_zoo.interop.tensors.links import Transposed


def linear(theirs: str, ours: str, *, bias: bool = True) -> Iterator[Link]:
  """`torch.nn.Linear`, which keeps its matrix as (out, in)."""
  yield Link(f"{theirs}.weight", (f"{ours}/kernel",), Transposed())
  if bias:
    yield Link(f"{theirs}.bias", (f"{ours}/bias",))


def conv1d(theirs: str, ours: Sequence[str]) -> Iterator[Link]:
  """`Conv1D` of `transformers`, (in, out); several of ours lie side by side."""
  layout = SideBySide(len(ours))
  yield Link(
    f"{theirs}.weight", tuple(f"{name}/kernel" for name in ours), layout
  )
  yield Link(f"{theirs}.bias", tuple(f"{name}/bias" for name in ours), layout)


def layer_norm(theirs: str, ours: str) -> Iterator[Link]:
  """`torch.nn.LayerNorm`."""
  yield Link(f"{theirs}.weight", (f"{ours}/scale",))
  yield Link(f"{theirs}.bias", (f"{ours}/bias",))
