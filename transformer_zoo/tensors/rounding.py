"""Matrices in 8 or 4 bits: whole numbers, and the scales that they are times.

An entry w of a column is stored as round(w / scale), where the scale is the
largest absolute value around it over the largest stored number: in 8 bits of
the whole column (127), in 4 bits of 64 rows of it (7), if 64 divides the rows.
So no entry moves by more than half of its scale.

In 4 bits the two halves of the rows that share a scale lie in the lower and the
upper halves of bytes, so that no row is moved by itself where they are taken
apart. JAX has a type of 4 bits, but a program that is compiled ahead of its
call refuses arrays of it on a CPU, and their sizes are counted as of bytes.
"""

from collections.abc import Callable, Iterator, Mapping
import dataclasses

import ml_dtypes
import numpy as np

from transformer_zoo.errors import UserError
from transformer_zoo.parameter_names import Parameter
from transformer_zoo.tensors.lazy_tensors import Tensor

# The types of stored numbers, by their bits; two of 4 are one of uint8.
DTYPES = {
  16: np.dtype(ml_dtypes.bfloat16),
  8: np.dtype(np.int8),
  4: np.dtype(np.uint8),
}
# The largest stored number of a type, and the rows that share a scale.
_RANGES = {DTYPES[8]: (127, None), DTYPES[4]: (7, 64)}
# Numbers in 4 bits are stored as what they are more than this.
_LEAST = -8
# The scales of `X/kernel` are the parameter `X/kernel_scale`.
_SCALE = "_scale"


@dataclasses.dataclass(frozen=True)
class RoundedTensor(Tensor):
  """A tensor that is computed from one of a checkpoint.

  Attributes:
    original: The tensor of the checkpoint.
  """

  original: Tensor | None = None


def is_rounded(dtype: np.dtype) -> bool:
  """Whether numbers of a type are times a scale."""
  return dtype in _RANGES


def stored_shapes(
  dtype: np.dtype, rows: int, columns: int
) -> tuple[tuple[int, int], tuple[int, int]]:
  """The shapes of the stored numbers of a matrix and of its scales.

  Args:
    dtype: A type for which `is_rounded`.
    rows: The rows of the matrix.
    columns: Its columns.

  Raises:
    UserError: A row has no other one to share bytes with.
  """
  _, block = _RANGES[dtype]
  if dtype == DTYPES[4] and rows % 2:
    raise UserError(
      f"a matrix of {rows} rows is not kept in 4 bits, which takes an even "
      "number of them; set BASE_BITS = 8, or leave it out of ROUNDED_"
      "PROJECTIONS"
    )
  number = rows // block if block and rows % block == 0 else 1
  return (rows // _rows_of_one(dtype), columns), (number, columns)


def rounded(
  kernel: np.ndarray, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
  """Rounds matrices.

  Args:
    kernel: Matrices, floating-point [..., in, out].
    dtype: A type for which `is_rounded`.

  Returns:
    Whole numbers of the type [..., in, out], or [..., in / 2, out] of two in a
    byte, and float32 scales [..., S, out].
  """
  *others, rows, columns = kernel.shape
  shape, (number, _) = stored_shapes(dtype, rows, columns)
  blocks = _blocks(np.asarray(kernel, np.float32), number)
  scales = scales_of(kernel, dtype)
  # A column of zeros has the scale 0.
  quotients = blocks / np.where(scales > 0, scales, 1)[..., None, :]
  numbers = np.rint(quotients, out=quotients).astype(np.int8)
  if dtype == DTYPES[4]:
    lower, upper = np.split((numbers - _LEAST).astype(dtype), 2, axis=-2)
    numbers = lower | upper << 4
  return numbers.reshape(*others, *shape), scales


def numbers_of(kernel: np.ndarray, dtype: np.dtype) -> np.ndarray:
  """Returns the numbers that `rounded` does."""
  numbers, _ = rounded(kernel, dtype)
  return numbers


def scales_of(kernel: np.ndarray, dtype: np.dtype) -> np.ndarray:
  """Returns the scales that `rounded` does."""
  *_, rows, columns = kernel.shape
  _, (number, _) = stored_shapes(dtype, rows, columns)
  blocks = _blocks(np.asarray(kernel, np.float32), number)
  largest, _ = _RANGES[dtype]
  most = np.maximum(np.max(blocks, axis=-2), -np.min(blocks, axis=-2))
  return most / np.float32(largest)


def restored(numbers, scales, numpy=np):
  """Returns float32 matrices [..., in, out] of whole numbers and scales.

  Args:
    numbers: As `rounded` returns them.
    scales: The same.
    numpy: The module that computes, numpy or `jax.numpy`.
  """
  *others, rows, columns = numbers.shape
  blocks = _blocks(numbers, scales.shape[-2])
  if numbers.dtype == DTYPES[4]:
    both = numpy.concatenate([blocks & 15, blocks >> 4], axis=-2)
    blocks = both.astype(numpy.int8) + numpy.int8(_LEAST)
  floats = blocks.astype(numpy.float32) * scales[..., None, :]
  return floats.reshape(*others, rows * _rows_of_one(numbers.dtype), columns)


def _rows_of_one(dtype: np.dtype) -> int:
  """The number of rows of a matrix in a row of stored numbers."""
  return 2 if dtype == DTYPES[4] else 1


def _blocks(kernel, number: int):
  """Matrices [..., in, out] as [..., number, in / number, out]."""
  *others, rows, columns = kernel.shape
  return kernel.reshape(*others, number, rows // number, columns)


def original(tensor: Tensor | None) -> Tensor | None:
  """The tensor of a checkpoint that another one is computed from, or itself."""
  return tensor.original if isinstance(tensor, RoundedTensor) else tensor


def kernel_of(name: str) -> str:
  """The name of the parameter of a checkpoint that one is computed from."""
  whole = name.removesuffix(_SCALE)
  return whole if whole.endswith("/kernel") else name


def without_scales(wanted: Mapping[str, Parameter]) -> dict[str, Parameter]:
  """The parameters of a model as a checkpoint is to have them."""
  found = {}
  for name, parameter in wanted.items():
    kernel = kernel_of(name)
    if kernel != name and is_rounded(wanted[kernel].dtype):
      continue
    if is_rounded(parameter.dtype):
      *others, rows, columns = parameter.shape
      rows *= _rows_of_one(parameter.dtype)
      parameter = parameter._replace(shape=(*others, rows, columns))
    found[name] = parameter
  return found


def with_scales(
  tensors: Mapping[str, Tensor | None], wanted: Mapping[str, Parameter]
) -> dict[str, Tensor | None]:
  """Rounds tensors to the types of a model's parameters.

  Args:
    tensors: The tensors of `without_scales` of the parameters.
    wanted: All parameters of the model.

  Raises:
    UserError: A parameter that is stored as whole numbers is not read.
  """
  return dict(_with_scales(tensors, wanted))


def _with_scales(tensors, wanted) -> Iterator[tuple[str, Tensor | None]]:
  for name, tensor in tensors.items():
    dtype = wanted[name].dtype
    if not is_rounded(dtype):
      yield name, tensor
      continue
    if tensor is None:
      raise UserError(not_read(name, dtype))
    for each, compute in ((name, numbers_of), (name + _SCALE, scales_of)):
      yield each, _computed(wanted[each], tensor, compute, dtype)


def _computed(
  parameter: Parameter,
  tensor: Tensor,
  compute: Callable[[np.ndarray, np.dtype], np.ndarray],
  dtype: np.dtype,
) -> RoundedTensor:
  """A parameter of a model, computed from a tensor of a checkpoint."""
  return RoundedTensor(
    parameter.shape,
    parameter.dtype,
    lambda: compute(tensor.read(), dtype),
    original=tensor,
  )


def not_read(name: str, dtype: np.dtype) -> str:
  """The error on a parameter of whole numbers that no checkpoint gives."""
  return (
    f"{name} is kept in {8 // _rows_of_one(dtype)} bits and never trained, so "
    "that it has to be read from INITIAL_CHECKPOINT_PATH, and it is not; "
    "choose ROUNDED_PROJECTIONS without it, or BASE_BITS = 32"
  )


def in_float(tensor: Tensor, dtype: np.dtype) -> Tensor:
  """A tensor of the float32 numbers that a rounded one stands for.

  Args:
    tensor: A tensor of a checkpoint.
    dtype: The type that a model rounds it to.
  """

  def load() -> np.ndarray:
    if is_rounded(dtype):
      return restored(*rounded(tensor.read(), dtype))
    return tensor.read().astype(dtype)

  return Tensor(tensor.shape, np.dtype(np.float32), load)
