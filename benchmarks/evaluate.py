"""Measures evaluation and preparation of real data.

    python benchmarks/evaluate.py --data_dir DATA
    python benchmarks/evaluate.py --data_dir DATA --prepare

Without `--prepare`: decoding and scoring of the first rows of a validation set
as `zoo evaluate` does it, in seconds and rows per second, compilation
included; `cpu_seconds` is the processor time of all threads. The parameters are
random, so that hardly a row ends early. With `--prepare`: the seconds that each
named task or mixture takes in an empty folder.
"""

import argparse
import tempfile
import time

import jax
from workloads import shapes

from transformer_zoo.data.prepare import preparation
from transformer_zoo.data.prepare import registration
from transformer_zoo.runs.answers import scoring
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE


def measure_evaluation(arguments, prepared_dir) -> dict:
  model, shape = shapes.model_of(arguments)
  mixture = preparation.prepare(
    arguments.task,
    prepared_dir=prepared_dir,
    data_dir=arguments.data_dir,
    splits=["validation"],
  )
  lengths = {"inputs": shape.inputs, "targets": shape.targets}
  mesh = ONE_COPY_PER_DEVICE.mesh()
  with ONE_COPY_PER_DEVICE.activate(mesh):
    params = shapes.random_parameters(model)
    evaluator = scoring.make_evaluator(
      model,
      mesh,
      lengths,
      arguments.batch_size or shape.batch_size,
      arguments.rows,
      vocabulary=mixture.tasks[0].vocabulary,
    )
    start, cpu = time.perf_counter(), time.process_time()
    result = evaluator(params, mixture.tasks[0], "validation")
    seconds = time.perf_counter() - start
    cpu = time.process_time() - cpu
  return {
    "task": arguments.task,
    "shape": arguments.shape,
    "lengths": lengths,
    "batch_size": evaluator.batch_size,
    "device": jax.devices()[0].device_kind,
    "rows": result.num_examples,
    "truncated": result.truncated,
    "seconds": seconds,
    "cpu_seconds": cpu,
    "rows_per_second": result.num_examples / seconds,
    "programs": evaluator.scorer.generate._cache_size()
    + evaluator.scorer.example_sums._cache_size(),
    "scores": result.scores,
  }


def measure_preparation(names, data_dir) -> dict:
  # TensorFlow's and SeqIO's imports are not what is measured.
  registration.register_tasks(data_dir)
  figures = {}
  with tempfile.TemporaryDirectory() as prepared_dir:
    for name in names:
      start = time.perf_counter()
      mixture = preparation.prepare(
        name, prepared_dir=prepared_dir, data_dir=data_dir
      )
      figures[name] = {
        "seconds": time.perf_counter() - start,
        "examples": sum(
          split.num_examples
          for task in mixture.tasks
          for split in task.splits.values()
        ),
      }
  return figures | {
    "seconds": sum(figure["seconds"] for figure in figures.values())
  }


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--data_dir", required=True, metavar="DIR")
  parser.add_argument("--task", default="squad_v010_allanswers")
  parser.add_argument("--rows", type=int, default=1000)
  parser.add_argument("--batch_size", type=int, help="that of the shape")
  parser.add_argument(
    "--prepare",
    nargs="*",
    metavar="NAME",
    help="tasks and mixtures; GLUE, SuperGLUE and SQuAD without any",
  )
  arguments = shapes.parse(parser, default="tiny_32k")
  if arguments.prepare is not None:
    names = arguments.prepare or [
      "glue_available",
      "super_glue_available",
      "squad_v010_allanswers",
    ]
    figures = measure_preparation(names, arguments.data_dir)
  else:
    with tempfile.TemporaryDirectory() as prepared_dir:
      figures = measure_evaluation(arguments, prepared_dir)
  shapes.show(figures, arguments.json)


if __name__ == "__main__":
  main()
