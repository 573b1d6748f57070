"""Bounds of a step, and what chips can do."""

import dataclasses

import pytest

from transformer_zoo.forecast import hardware
from transformer_zoo.forecast import roofline
from transformer_zoo.forecast.collectives import Total
from transformer_zoo.forecast.cost import Cost

CHIP = hardware.Chip("x", "X", 100.0, 10, 10.0, 2.0, 10)


def test_formulas():
  found = roofline.estimate(
    Cost(flops=9999, matmul_flops=800, bytes_accessed=240),
    600,
    [Total("all-reduce", (), 1, 5, 4), Total("all-gather", (), 1, 5, 1)],
    chip=CHIP,
    devices=4,
    step_tokens=50,
    tokens=86400 * 100,
  )
  assert (found.compute, found.memory, found.interconnect) == (2.0, 6.0, 2.5)
  assert found.limit == "memory"
  assert found.at_best == roofline.Estimate(
    seconds=6.0,
    tokens_per_second=pytest.approx(50 / 6),
    utilisation=pytest.approx(600 / (6 * 400)),
    days=pytest.approx(12.0),
  )
  assert found.in_turn.seconds == 10.5
  assert found.in_turn.days == pytest.approx(21.0)


def test_chips_are_found_by_the_kind_that_jax_tells():
  assert hardware.chip_of("TPU v5 lite").name == "v5e"
  assert hardware.chip_of("TPU v5").name == "v5p"
  assert hardware.chip_of("NVIDIA H200").memory_bytes == 141e9
  assert hardware.chip_of("cpu") is None


@pytest.mark.parametrize("chip", hardware.CHIPS, ids=lambda chip: chip.name)
def test_a_program_gets_less_than_the_memory(chip):
  # v5p: libtpu gives more than the 95 GB of the data sheet, read as GiB.
  assert 0.9 < chip.available_bytes / chip.memory_bytes < 1.01
  assert all(value for value in dataclasses.astuple(chip))
