"""Measures the rows of a study: `python benchmarks/modifications.py`.

Writes docs/reference/modifications.csv, from which the table of modifications
is made: for each row the parameters of the model and the FLOPs of its
pre-training beside the baseline's, both of the suite `paper` and traced alone;
and the seconds of a step of its pre-training on the suite `miniature` beside
the baseline's, the median over rounds in which the two are run in turn, with
full rows of random ids. `--rows` measures some rows again and keeps the others.
"""

import argparse
from collections.abc import Callable, Iterator
import csv
import pathlib
import statistics
import time

import gin
import jax
import numpy as np
from workloads import random_batches
from workloads import timing

from transformer_zoo import config
from transformer_zoo.runs import settings
from transformer_zoo.studies.design import loading
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import planned_run
from transformer_zoo.studies.design.study import Study
from transformer_zoo.studies.execution import costs

FILE = pathlib.Path(__file__).parents[1] / "docs/reference/modifications.csv"
HEADS = "row", "parameters", "flops", "seconds"


def pretraining(study: Study, suite: str) -> dict[str, planned_run.Run]:
  """The runs of pre-training by the names of rows; nothing is prepared."""
  runs = plan.plan(study, loading.load_suite(suite), prepare=False)
  return {run.row: run for run in runs if run.phase == "pretrain"}


def counts(runs: dict[str, planned_run.Run]) -> Iterator[tuple[str, int, int]]:
  """Yields row, parameters and FLOPs of a whole pre-training."""
  for row, run in runs.items():
    [job] = costs.jobs([run])
    yield row, job.costs.parameters, job.costs.flops


def stepper(run: planned_run.Run) -> Callable[[], None]:
  """Compiles a run's step; what is returned makes one."""
  try:
    config.load((), planned_run.bindings("train", 0, ""), changes=run.changes)
    read = settings.Run.of_loaded()
  finally:
    gin.clear_config()
  program = read.step.program(jax.devices()[:1])
  lengths = read.examples.task_feature_lengths
  with program.partitioning.activate(program.mesh):
    held = [program.initial_state(jax.random.key(0))]
    full = random_batches.packed(
      read.step.batch_size,
      lengths["inputs"],
      lengths["targets"],
      read.step.model.token_embedder.num_embeddings,
    )
    batch = {
      name: jax.device_put(np.asarray(full[name], shape.dtype), shape.sharding)
      for name, shape in read.abstract_batch(program.mesh).items()
    }
    key = jax.random.key(1)
    compiled = program.step.lower(held[0], batch, key).compile()

  def step():
    held[0], sums = compiled(held[0], batch, key)
    jax.block_until_ready((held[0], sums))

  return step


def seconds_beside(
  step: Callable[[], None], baseline: Callable[[], None], rounds: int
) -> float:
  """The median over rounds of the time of a step beside the baseline's."""
  ratios = []
  for number in range(rounds + 1):
    taken = []
    for each in (baseline, step):
      start = time.perf_counter()
      for _ in range(5):
        each()
      taken.append(time.perf_counter() - start)
    if number:  # The first round warms up.
      ratios.append(taken[1] / taken[0])
  return statistics.median(ratios)


def main():
  """Parses arguments, measures, writes."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--study", default="narang_table1")
  parser.add_argument("--rounds", type=int, default=7)
  parser.add_argument("--rows", nargs="+", help="names of rows; all by default")
  arguments = parser.parse_args()
  study = loading.load_study(arguments.study)
  names = [row.name for row in study.rows]
  asked = arguments.rows or names
  found = {}
  if FILE.exists():
    with FILE.open(encoding="utf-8") as file:
      found = {line["row"]: line for line in csv.DictReader(file)}
  base = study.baseline_name
  of_paper = pretraining(study, "paper")
  counted = {
    row: (parameters, flops)
    for row, parameters, flops in counts(
      {row: of_paper[row] for row in {base: 0} | dict.fromkeys(asked)}
    )
  }
  of_miniature = pretraining(study, "miniature")
  baseline = stepper(of_miniature[base])
  for row in asked:
    parameters, flops = counted[row]
    ratio = seconds_beside(
      stepper(of_miniature[row]), baseline, arguments.rounds
    )
    found[row] = {
      "row": row,
      "parameters": parameters,
      "flops": f"{flops / counted[base][1]:.3f}",
      "seconds": f"{ratio:.2f}",
    }
    print(*found[row].values(), flush=True)
    jax.clear_caches()
  with FILE.open("w", encoding="utf-8", newline="") as file:
    writer = csv.DictWriter(file, HEADS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found[name] for name in names if name in found)
  print(timing.machine())


if __name__ == "__main__":
  main()
