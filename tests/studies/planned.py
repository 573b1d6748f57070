"""Runs whose costs are given."""

import pathlib

from transformer_zoo.forecast.cost import Cost
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.execution import costs
from transformer_zoo.studies.execution import run_progress
from transformer_zoo.studies.execution.run_costs import RunCosts

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


def make_run(
  phase, name=None, *, starts=(), command="train", row="baseline", group=""
):
  """A run in a folder of its name, by default that of its phase."""
  return planned_run.Run(
    row=row,
    seed=0,
    group=group,
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
  phase, name=None, costs_=COSTS, state=run_progress.NOT_RUN, **of_run
):
  """A job of such a run."""
  return costs.Job(make_run(phase, name, **of_run), state, costs_)
