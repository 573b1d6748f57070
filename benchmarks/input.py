"""Measures the input path: prepare, then the loader alone, and their peers.

    python benchmarks/input.py --mixture miniature --json
    python benchmarks/input.py --task wikipedia_text_span_corruption \
      --data_dir DATA --peers

Prints examples/s and tokens/s of `prepare` (into an empty folder), and of the
loader steps/s, tokens/s and the share of tokens that are no padding, with the
seconds until the first batch; of unlabelled text also the raw tokens/s of its
corruption alone. Tokens are those that are no padding, inputs and
targets together. The loader is measured with nothing beside it; `cpu` figures
divide by the processor time of all its threads.

With `--peers`, of a task of unlabelled text: `prepare` of one split and the
SentencePiece library on its documents in memory, in turn, on as many threads;
and SeqIO on documents in memory, without a cache, with the t5 package's
corruption where that can be imported: tokenising alone, then whole batches.
"""

import argparse
import json
import os
import tempfile
import time

import numpy as np

from transformer_zoo import corruption
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.data.loader import loader
from transformer_zoo.data.prepare import preparation
from transformer_zoo.data.prepare import registration


def measure_prepare(name, prepared_dir, data_dir):
  # TensorFlow's and SeqIO's imports are not what is measured.
  registration.register_tasks(data_dir)
  start = time.perf_counter()
  mixture = preparation.prepare(
    name, prepared_dir=prepared_dir, data_dir=data_dir
  )
  seconds = time.perf_counter() - start
  splits = [split for task in mixture.tasks for split in task.splits.values()]
  examples = sum(split.num_examples for split in splits)
  tokens = sum(split.num_tokens for split in splits)
  return mixture, {
    "seconds": seconds,
    "examples_per_second": examples / seconds,
    "tokens_per_second": tokens / seconds,
    "examples": examples,
    "tokens": tokens,
  }


def measure_loader(mixture, arguments):
  lengths = {"inputs": arguments.inputs, "targets": arguments.targets}
  start = time.perf_counter()
  batches = loader.training_batches(
    mixture,
    split=arguments.split,
    lengths=lengths,
    batch_size=arguments.batch_size,
    seed=0,
    packing=not arguments.no_packing,
  )
  next(batches)
  first = time.perf_counter() - start
  filled = dict.fromkeys(("encoder_input_tokens", "decoder_target_tokens"), 0)
  segments = 0
  start, cpu = time.perf_counter(), time.process_time()
  for _ in range(arguments.steps):
    batch = next(batches)
    for key in filled:
      filled[key] += np.count_nonzero(batch[key])
    if "decoder_segment_ids" in batch:
      segments += int(batch["decoder_segment_ids"].max(axis=1).sum())
    else:
      segments += arguments.batch_size
  seconds = time.perf_counter() - start
  cpu = time.process_time() - cpu
  rows = arguments.steps * arguments.batch_size
  return {
    "seconds_to_first_batch": first,
    "steps_per_second": arguments.steps / seconds,
    "examples_per_second": segments / seconds,
    "tokens_per_second": sum(filled.values()) / seconds,
    "tokens_per_cpu_second": sum(filled.values()) / cpu,
    "filled_inputs": filled["encoder_input_tokens"] / (rows * arguments.inputs),
    "filled_targets": filled["decoder_target_tokens"]
    / (rows * arguments.targets),
  }


def measure_corruption(task, arguments):
  """Corrupts the same random batch again and again."""
  lengths = {"inputs": arguments.inputs, "targets": arguments.targets}
  corrupt = corruption.from_spec(task.corruption)
  rows = np.arange(arguments.batch_size)
  shape = len(rows), corrupt.raw_length(lengths)
  tokens = np.random.default_rng(0).integers(3, 1000, shape, np.int32)
  corrupt(tokens, Draws(0, rows), task.vocabulary)
  start, cpu = time.perf_counter(), time.process_time()
  for step in range(arguments.steps):
    draws = Draws(0, rows + step * len(rows))
    corrupt(tokens, draws, task.vocabulary)
  seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
  return {
    "tokens_per_second": arguments.steps * tokens.size / seconds,
    "tokens_per_cpu_second": arguments.steps * tokens.size / cpu,
  }


def measure_peers(task, arguments):
  """Measures the library and SeqIO; imports TensorFlow."""
  from peers import seqio_input

  documents, seconds = seqio_input.read_documents(task.name, arguments.split)
  with tempfile.TemporaryDirectory() as folder:
    tokenising = seqio_input.measure_tokenising(
      documents,
      task.name,
      arguments.split,
      lambda: tempfile.mkdtemp(dir=folder),
      arguments.cores,
      arguments.repeats,
    )
  seqio = seqio_input.measure_seqio(
    documents,
    task.name,
    {"inputs": arguments.inputs, "targets": arguments.targets},
    arguments.batch_size,
    arguments.steps // 4,
  )
  return {
    "tokenising": {"seconds_to_read_documents": seconds} | tokenising,
    "seqio": seqio,
  }


def show(part, values):
  for key, value in values.items():
    if isinstance(value, list):
      value = " ".join(f"{each:.2f}" for each in value)
    elif not isinstance(value, str):
      value = f"{value:,.3f}"
    print(f"{part:10} {key:28} {value:>18}")


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  name = parser.add_mutually_exclusive_group(required=True)
  name.add_argument("--task")
  name.add_argument("--mixture")
  parser.add_argument("--data_dir")
  parser.add_argument("--split", default="train")
  parser.add_argument("--inputs", type=int, default=512)
  parser.add_argument("--targets", type=int, default=114)
  parser.add_argument("--batch_size", type=int, default=128)
  parser.add_argument("--steps", type=int, default=200)
  parser.add_argument("--no_packing", action="store_true")
  parser.add_argument(
    "--peers", action="store_true", help="SentencePiece, SeqIO"
  )
  parser.add_argument("--cores", type=int, default=2, help="that are used")
  parser.add_argument("--repeats", type=int, default=3, help="with --peers")
  parser.add_argument("--json", action="store_true", help="one JSON object")
  arguments = parser.parse_args()
  cores = sorted(os.sched_getaffinity(0))[: arguments.cores]
  os.sched_setaffinity(0, cores)  # of this process and those that it starts
  with tempfile.TemporaryDirectory() as prepared_dir:
    mixture, prepared = measure_prepare(
      arguments.task or arguments.mixture, prepared_dir, arguments.data_dir
    )
    result = {
      "name": mixture.name,
      "prepare": prepared,
      "loader": measure_loader(mixture, arguments),
    }
    if mixture.tasks[0].corruption:
      result["corruption"] = measure_corruption(mixture.tasks[0], arguments)
    if arguments.peers:
      result |= measure_peers(mixture.tasks[0], arguments)
  if arguments.json:
    print(json.dumps(result))
    return
  for part in ("prepare", "loader", "corruption", "tokenising", "seqio"):
    show(part, result.get(part, {}))


if __name__ == "__main__":
  main()
