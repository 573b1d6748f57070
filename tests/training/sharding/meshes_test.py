"""Meshes of simulated devices and slices, and what is refused."""

import dataclasses

import jax
import numpy as np
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.training.sharding import meshes
from transformer_zoo.training.sharding.partitioning import Partitioning


@dataclasses.dataclass(frozen=True)
class Chip:
  """What a mesh asks of a TPU device."""

  id: int
  slice_index: int
  platform: str = "tpu"
  device_kind: str = "simulated"
  process_index: int = 0
  core_on_chip: int = 0

  @property
  def coords(self):
    return self.id // 4, self.id // 2 % 2, 0


def sizes(**fields):
  return tuple(Partitioning(**fields).mesh().shape.values())


@pytest.mark.parametrize(
  ("fields", "expected"),
  [
    ({}, (8, 1, 1)),
    ({"num_partitions": 2}, (4, 1, 2)),
    ({"fsdp": 2, "num_partitions": 2}, (2, 2, 2)),
    ({"fsdp": -1}, (1, 8, 1)),
    ({"fsdp": -1, "num_partitions": 2}, (1, 4, 2)),
    ({"fsdp": 2, "num_partitions": -1}, (1, 2, 4)),
    ({"fsdp": -1, "num_slices": 2}, (2, 4, 1)),
    ({"num_partitions": 2, "num_slices": 4}, (4, 1, 2)),
  ],
)
def test_sizes_fill_the_devices(fields, expected):
  assert sizes(**fields) == expected


def test_only_data_runs_across_slices():
  mesh = Partitioning(fsdp=2, num_partitions=2, num_slices=2).mesh()
  halves = [{d.id for d in half.flat} for half in mesh.devices]
  assert halves == [{0, 1, 2, 3}, {4, 5, 6, 7}]


def test_slices_are_those_that_the_devices_tell_of():
  chips = [Chip(i, slice_index=i % 2) for i in range(8)]
  mesh = meshes.make_mesh(chips, fsdp=-1, num_partitions=2, num_slices=-1)
  assert mesh.devices.shape == (2, 2, 2)
  slices = np.vectorize(lambda chip: chip.slice_index)(mesh.devices)
  np.testing.assert_array_equal(slices[0], 0)
  np.testing.assert_array_equal(slices[1], 1)
  with pytest.raises(UserError) as caught:
    meshes.make_mesh(chips, fsdp=1, num_partitions=1, num_slices=4)
  assert str(caught.value) == (
    "num_slices=4 does not fit 8 devices in 2 slices; choose 2"
  )


def test_stages_lie_on_slices_of_their_own():
  chips = [Chip(i, slice_index=i % 4) for i in range(8)]
  mesh = meshes.make_mesh(
    chips, fsdp=2, num_partitions=1, num_slices=-1, num_stages=2
  )
  assert dict(mesh.shape) == {"stage": 2, "data": 2, "fsdp": 2, "model": 1}
  slices = np.vectorize(lambda chip: chip.slice_index)(mesh.devices)
  assert [[set(row.flat) for row in stage] for stage in slices] == [
    [{0}, {1}], [{2}, {3}]
  ]  # fmt: skip


@pytest.mark.parametrize(
  ("fields", "sentence"),
  [
    (
      {"fsdp": 3},
      "fsdp=3 and num_partitions=1 do not divide 8 devices; meshes that do, as "
      "data x fsdp x num_partitions: 8x1x1, 4x2x1, 2x4x1, 1x8x1, 4x1x2, 2x2x2, "
      "1x4x2, 2x1x4, 1x2x4, 1x1x8",
    ),
    (
      {"num_partitions": 8, "num_slices": 4},
      "fsdp=1 and num_partitions=8 do not divide 2 devices in each of 4 "
      "slices; meshes that do, as data x fsdp x num_partitions: 8x1x1, "
      "4x2x1, 4x1x2",
    ),
    (
      {"fsdp": -1, "num_partitions": -1},
      "fsdp=-1 and num_partitions=-1 do not divide 8 devices; meshes that do",
    ),
    ({"fsdp": 0}, "fsdp=0 and num_partitions=1 do not divide 8 devices; "),
    (
      {"fsdp": -2, "num_partitions": -2},
      "fsdp=-2 and num_partitions=-2 do not divide 8 devices; ",
    ),
    (
      {"num_slices": 3},
      "num_slices=3 does not fit 8 devices; choose one of 1, 2, 4, 8",
    ),
    (
      {"expert": 3},
      "Partitioning.expert is 3, which does not divide 8 devices of a slice; "
      "choose one of 1, 2, 4, 8",
    ),
    (
      {"expert": 2, "sequence": 3},
      "Partitioning.sequence is 3, which does not divide 4 devices of a slice; "
      "choose one of 1, 2, 4",
    ),
    (
      {"sequence": 2, "num_stages": 2},
      "Partitioning.sequence does not go with Partitioning.num_stages: the sta",
    ),
    (
      {"expert": 2, "fsdp": 8},
      "fsdp=8 and num_partitions=1 do not divide 4 devices; meshes that do",
    ),
  ],
)
def test_refusals(fields, sentence):
  with pytest.raises(UserError) as caught:
    Partitioning(**fields).mesh()
  assert str(caught.value).startswith(sentence)


def test_a_mesh_of_given_devices():
  devices = jax.devices()[:4]
  mesh = Partitioning(num_partitions=2).mesh(devices)
  assert [device.id for device in mesh.devices.flat] == [0, 1, 2, 3]
