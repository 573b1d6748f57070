"""The mesh axes along which a collective's groups of devices lie.

Three notations occur (openxla/xla, hlo/ir/replica_group.cc): lists
`{{0,1},{2,3}}`, iota tiles `[4,2]<=[2,4]T(1,0)`, and axes of the partitioner's
own mesh `mesh['a'=4,'b'=2] {'b'}`, perhaps with its order of devices, `,
device_ids=([2,4]T(1,0))`. Devices are numbered in the order of the program's
mesh.
"""

from collections.abc import Mapping
import itertools
import re

import numpy as np

_LISTS = re.compile(r"replica_groups=\{(\{[\d,{} ]*\})?\}")
_IOTA = re.compile(
  r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?"
)
_MESH = re.compile(
  r"replica_groups=@?\w*mesh\[([^\]]*)\]"
  r"(?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? ?\{([^}]*)\}"
)
_PAIRS = re.compile(r"source_target_pairs=\{(\{[\d,{} ]*\})?\}")
_SIZED_AXIS = re.compile(r"'?([\w.]+)'?=(\d+)")
_NAMED_AXIS = re.compile(r"'?([\w.]+)'?(?::\((\d+)\)(\d+))?")


def of(
  attributes: str, mesh_shape: Mapping[str, int]
) -> tuple[tuple[str, ...], int]:
  """The mesh axes of a collective, and the devices in a group.

  Args:
    attributes: text of the instruction after its operands.
    mesh_shape: sizes of the mesh's axes.

  Returns:
    Axes of more than one device, none if the groups are no axes; and the size
    of a group.
  """
  shape = tuple(mesh_shape.values())
  devices = np.arange(np.prod(shape, dtype=int)).reshape(shape)
  if pairs := _PAIRS.search(attributes):
    return _axes_of_pairs(_rows(pairs[1]), devices, mesh_shape), 2
  groups = _groups(attributes, devices.size)
  return _axes_of_groups(groups, devices, mesh_shape), groups.shape[1]


def _groups(attributes: str, num_devices: int) -> np.ndarray:
  """Device numbers, [groups, devices in a group]."""
  if match := _IOTA.search(attributes):
    sizes, dims = _integers(match[1]), _integers(match[2])
    numbers = np.arange(np.prod(dims)).reshape(dims)
    if match[3]:
      numbers = numbers.transpose(_integers(match[3]))
    return numbers.reshape(sizes[0], -1)
  if match := _MESH.search(attributes):
    order = np.arange(num_devices)
    if match[2]:
      order = _order(_integers(match[2]), match[3], num_devices)
    return order[_groups_of_mesh(match[1], match[4])]
  match = _LISTS.search(attributes)
  if match and match[1]:
    return np.array(_rows(match[1]))
  return np.arange(num_devices)[None]


def _order(
  sizes: list[int], permutation: str | None, num_devices: int
) -> np.ndarray:
  """Device numbers in the order of the partitioner's mesh."""
  if np.prod(sizes) != num_devices:
    return np.array(sizes)
  numbers = np.arange(num_devices).reshape(sizes)
  if permutation:
    numbers = numbers.transpose(_integers(permutation))
  return numbers.ravel()


def _groups_of_mesh(mesh: str, named: str) -> np.ndarray:
  """Groups along axes, or parts `'a':(2)4` of axes, of the partitioner's."""
  sizes = {name: int(size) for name, size in _SIZED_AXIS.findall(mesh)}
  parts = {name: [size] for name, size in sizes.items()}
  chosen = []
  for name, before, size in _NAMED_AXIS.findall(named):
    where = 0
    if size:
      before, size = int(before), int(size)
      parts[name] = [before, size, sizes[name] // (before * size)]
      where = 1
    chosen.append((name, where))
  flat = [(name, i) for name, split in parts.items() for i in range(len(split))]
  numbers = np.arange(np.prod(list(sizes.values()))).reshape(
    [parts[name][i] for name, i in flat]
  )
  places = [flat.index(each) for each in chosen]
  width = int(np.prod([numbers.shape[place] for place in places]))
  last = range(-len(places), 0)
  return np.moveaxis(numbers, places, last).reshape(-1, width)


def _axes_of_groups(groups, devices, mesh_shape) -> tuple[str, ...]:
  wanted = {tuple(sorted(group)) for group in groups.tolist()}
  names = [name for name, size in mesh_shape.items() if size > 1]
  for count in range(1, len(names) + 1):
    for axes in itertools.combinations(names, count):
      places = [list(mesh_shape).index(name) for name in axes]
      moved = np.moveaxis(devices, places, range(-count, 0))
      width = int(np.prod(moved.shape[-count:]))
      along = np.sort(moved.reshape(-1, width), axis=1)
      # Of several slices a program names the groups of its own alone.
      if wanted <= set(map(tuple, along.tolist())):
        return axes
  return ()


def _axes_of_pairs(pairs, devices, mesh_shape) -> tuple[str, ...]:
  """Axes along which a source and its target differ."""
  differs = set()
  for source, target in pairs:
    ends = np.unravel_index([source, target], devices.shape)
    for name, (first, second) in zip(mesh_shape, ends, strict=True):
      if first != second:
        differs.add(name)
  return tuple(name for name in mesh_shape if name in differs)


def _rows(text: str | None) -> list[list[int]]:
  return [_integers(row) for row in re.findall(r"\{([\d, ]+)\}", text or "")]


def _integers(text: str) -> list[int]:
  return [int(number) for number in text.replace(" ", "").split(",")]
