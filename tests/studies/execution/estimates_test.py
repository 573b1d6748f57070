"""What studies will cost, from costs that are given."""

import pytest

from tests.studies.planned import make_job
from transformer_zoo.forecast import hardware
from transformer_zoo.studies.execution import estimates


def test_a_slice_is_told_by_its_roofline():
  chip = hardware.named("v5e")
  job = estimates._with_bounds(make_job("a"), chip, 16)
  compute = 10**9 / (16 * chip.peak_flops)
  memory = 10**6 / (16 * chip.memory_bandwidth)
  assert job.on_slice.in_turn.seconds == pytest.approx(compute + memory)
