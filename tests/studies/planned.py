"""Runs whose costs are given, and speeds."""

import pathlib

from transformer_zoo.forecast.cost import Cost
from transformer_zoo.forecast.run_costs import RunCosts
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.execution import estimates
from transformer_zoo.studies.execution import standing
from transformer_zoo.studies.execution.speeds import Kind
from transformer_zoo.studies.execution.speeds import Speed

SMALL = Kind("small", "glue")
COSTS = RunCosts(
  parameters=1000,
  trained_parameters=100,
  steps=50,
  input_tokens=5000,
  target_tokens=500,
  flops=10**9,
  executed=Cost(10**9, 10**9, 10**6),
  saves=2,
  evaluations=2,
)
# Of a run of `COSTS` at `speed()`, its beginning apart.
SECONDS = 50 * 0.5 + 2 * 3 + 2 * 0.25


def make_run(phase, name=None, *, starts=(), command="train", row="baseline"):
  """A run in a folder of its name, by default that of its phase."""
  return plan.Run(
    row=row,
    seed=0,
    group="",
    phase=phase,
    member=0,
    random_seed=0,
    mixture="glue",
    changes=(),
    command=command,
    scored=True,
    folder=pathlib.Path("runs") / (name or phase),
    fingerprint=name or phase,
    starts=starts,
    shared=False,
  )


def make_job(
  phase, name=None, kind=SMALL, costs=COSTS, state=standing.NOT_RUN, **of_run
):
  """A job of such a run."""
  run = make_run(phase, name, **of_run)
  return estimates.Job(run, state, kind, costs)


def speed(kind=SMALL, **changes):
  """A speed, at which a step of `COSTS` takes half a second."""
  values = {"beginning": 7.0, "step": 0.5, "evaluation": 3.0, "save": 0.25}
  return Speed(kind, **values | {"flops": 2e7} | changes)
