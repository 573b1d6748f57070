"""The cost of a run so far, over all of its processes."""

import json

import pytest

from transformer_zoo.training.monitoring.budget import Budget
from transformer_zoo.training.monitoring.budget import PARTS


class Clock:
  """Seconds that pass when the test says so."""

  now = 100.0

  def __call__(self):
    return self.now


def _process(saved, clock):
  """What a process adds: 3 s of start, 5 s of parts, 2 s of training."""
  started, clock.now = clock.now, clock.now + 3
  budget = Budget(saved, started=started, clock=clock)
  for part, seconds in (("compilation", 1), ("evaluation", 4), (None, 2)):
    if part is None:
      clock.now += seconds
      continue
    with budget.spent(part):
      clock.now += seconds
  budget.add(rows=8, tokens=70.0, targets=20.0, flops=1e6)
  return json.loads(json.dumps(budget.to_json()))


def test_processes_add_up():
  clock = Clock()
  first = _process(None, clock)
  assert list(first["seconds"]) == list(PARTS)
  assert first["seconds"] == {
    "start": 3,
    "compilation": 1,
    "training": 2,
    "evaluation": 4,
    "saving": 0,
  }
  both = _process(first, clock)
  assert both.pop("seconds") == {p: 2 * s for p, s in first["seconds"].items()}
  assert both == {
    "rows": 16,
    "input_tokens": 100,
    "target_tokens": 40,
    "flops": 2e6,
  }
  again = Budget(both, parameters=7, trained_parameters=3)
  assert again.tokens == 140
  assert (again.parameters, again.trained_parameters) == (7, 3)


def test_what_fails_has_taken_its_time():
  clock = Clock()
  budget = Budget(clock=clock)
  with pytest.raises(OSError), budget.spent("saving"):
    clock.now += 6
    raise OSError
  assert budget.seconds()["saving"] == 6
  assert budget.seconds()["training"] == 0
