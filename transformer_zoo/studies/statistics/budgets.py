"""Budgets of a study's rows: parameters, tokens, FLOPs, steps and seconds.

Rows should differ in one thing only. Whether their budgets are equal follows
from the counts of the finished runs, not from their configurations.
"""

from collections.abc import Callable, Mapping
import dataclasses
import statistics

from transformer_zoo.studies.execution import costs
from transformer_zoo.studies.execution.results import RunResult
from transformer_zoo.studies.execution.results import StudyResults
from transformer_zoo.studies.statistics.wording import compact

# Budgets that differ by less are called equal.
_EQUAL = 0.005


@dataclasses.dataclass(frozen=True)
class Cost:
  """The cost of one phase of a row, all groups and members together.

  Attributes:
    steps: The number of steps of one run.
    tokens: The number of input and target tokens without padding.
    flops: The floating-point operations of the model, padding included.
  """

  steps: float
  tokens: float
  flops: float


@dataclasses.dataclass(frozen=True)
class Budget:
  """The cost of one row with one seed, the mean over its finished seeds.

  A run that rows share counts in each of them.

  Attributes:
    parameters: The number of parameters of the model.
    trained: The number of parameters that the last phase trains.
    phases: The costs of the phases by name.
    seconds: The seconds of computing, on the machines of the runs.
    checkpoint_bytes: The bytes of the arrays of a checkpoint of the last phase;
      0 if unknown.
    step_bytes: The bytes on a device that the compiler plans for a step of the
      last phase; 0 if unknown.
  """

  parameters: float
  trained: float
  phases: Mapping[str, Cost]
  seconds: float
  checkpoint_bytes: float = 0.0
  step_bytes: float = 0.0

  @property
  def tokens(self) -> float:
    """The tokens of all phases."""
    return sum(cost.tokens for cost in self.phases.values())

  @property
  def steps(self) -> float:
    """The steps of one run of each phase."""
    return sum(cost.steps for cost in self.phases.values())

  @property
  def flops(self) -> float:
    """The FLOPs of all phases."""
    return sum(cost.flops for cost in self.phases.values())

  @property
  def pretraining_flops(self) -> float:
    """The FLOPs of all phases but the last, whose scores are the row's."""
    *before, _ = self.phases.values()
    return sum(cost.flops for cost in before)


NOTE = (
  "Tokens of inputs and targets, padding apart, and FLOPs that the model needs "
  "for the batches, padding included, in all groups; steps of one run of each "
  "phase. What rows share counts in each of them. × is the share of the "
  "baseline's."
)

# The quantities that are compared, and what a row has of each.
QUANTITIES: Mapping[str, Callable[[Budget], float]] = {
  "parameters": lambda budget: budget.parameters,
  "trained parameters": lambda budget: budget.trained,
  "tokens": lambda budget: budget.tokens,
  "FLOPs": lambda budget: budget.flops,
  "steps": lambda budget: budget.steps,
}
# Those of rows of which one trains a part of its model.
_OF_PARTS: Mapping[str, Callable[[Budget], float]] = {
  "checkpoint bytes": lambda budget: budget.checkpoint_bytes,
  "step bytes": lambda budget: budget.step_bytes,
}


def quantities(
  budgets: Mapping[str, Budget],
) -> Mapping[str, Callable[[Budget], float]]:
  """Returns the quantities that a study reports.

  Args:
    budgets: The budgets of its rows.
  """
  if not trains_parts(budgets):
    return QUANTITIES
  return {**QUANTITIES, **_OF_PARTS}


def trains_parts(budgets: Mapping[str, Budget]) -> bool:
  """Returns whether a row trains a part of its model."""
  return any(budget.trained < budget.parameters for budget in budgets.values())


def of_rows(study: StudyResults) -> dict[str, Budget]:
  """Returns the budgets of the rows that have a finished seed."""
  found = {}
  for row in study.rows:
    by_seed = [_finished(study, row, seed) for seed in study.seeds]
    budgets = [_budget(runs) for runs in by_seed if runs]
    if budgets:
      found[row] = _mean(budgets)
  return found


def sentences(study: StudyResults, budgets: Mapping[str, Budget]) -> list[str]:
  """Returns sentences about quantities that are equal in all rows or not."""
  base = budgets.get(study.baseline)
  if base is None or len(budgets) < 2:
    return []
  equal, lines = [], []
  for name, of in quantities(budgets).items():
    whole = of(base)
    if not whole:  # Counted by a program that did not count this.
      continue
    shares = {row: of(budget) / whole for row, budget in budgets.items()}
    low, high = min(shares, key=shares.get), max(shares, key=shares.get)
    if all(map(is_equal, shares.values())):
      equal.append(f"{name} ({compact(whole)})")
    else:
      lines.append(
        f"Not equal: {name}, from {shares[low]:.2f} "
        f"({study.rows[low].label}) to {shares[high]:.2f} "
        f"({study.rows[high].label}) of the baseline's {compact(whole)}."
      )
  if equal:
    lines.insert(0, f"Equal in all rows: {', '.join(equal)}.")
  return lines


def warning(study: StudyResults, budgets: Mapping[str, Budget]) -> str:
  """Returns a sentence if a row reads twice the tokens of another, else ""."""
  return costs.unequal_tokens(
    {study.rows[row].label: one.tokens for row, one in budgets.items()}
  )


def share(value: float, base: float | None) -> str:
  """Returns `× 0.55`; "" where it is all of the baseline's, or that is 0."""
  ratio = value / base if base else 1.0
  return "" if is_equal(ratio) else f"× {ratio:.2f}"


def is_equal(share: float) -> bool:
  """Returns whether a share of the baseline's budget is 1 within 0.5 %."""
  return abs(share - 1) < _EQUAL


def _finished(study, row, seed) -> list[RunResult]:
  """The runs that train a row with a seed, empty until all are finished."""
  runs = [run for run in study.of_row(row) if run.seed == seed]
  if any(run.result is None for run in runs):
    return []
  return [run for run in runs if "budget" in run.result]


def _budget(runs: list[RunResult]) -> Budget:
  of_phase = {}
  for run in runs:
    of_phase.setdefault(run.phase, []).append(run.result["budget"])
  every = [budget for budgets in of_phase.values() for budget in budgets]
  *_, last = of_phase.values()
  return Budget(
    parameters=max(budget["parameters"] for budget in every),
    trained=max(budget["trained_parameters"] for budget in last),
    phases={
      phase: Cost(
        steps=max(budget["steps"] for budget in budgets),
        tokens=sum(b["input_tokens"] + b["target_tokens"] for b in budgets),
        flops=sum(budget["flops"] for budget in budgets),
      )
      for phase, budgets in of_phase.items()
    },
    seconds=sum(run.result["seconds"] for run in runs),
    checkpoint_bytes=max(b.get("checkpoint_bytes", 0) for b in last),
    step_bytes=max(b.get("step_bytes", 0) for b in last),
  )


def _mean(budgets: list[Budget]) -> Budget:
  def mean(of):
    return statistics.fmean(map(of, budgets))

  return Budget(
    parameters=mean(lambda b: b.parameters),
    trained=mean(lambda b: b.trained),
    phases={
      phase: Cost(
        steps=mean(lambda b, phase=phase: b.phases[phase].steps),
        tokens=mean(lambda b, phase=phase: b.phases[phase].tokens),
        flops=mean(lambda b, phase=phase: b.phases[phase].flops),
      )
      for phase in budgets[0].phases
    },
    seconds=mean(lambda b: b.seconds),
    checkpoint_bytes=mean(lambda b: b.checkpoint_bytes),
    step_bytes=mean(lambda b: b.step_bytes),
  )
