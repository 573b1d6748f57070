"""Peers of benchmarks/input.py: SentencePiece and SeqIO."""

import functools
import os
import statistics
import time

import numpy as np
import sentencepiece
import seqio
import tensorflow as tf

from transformer_zoo.data.prepare import preparation
from transformer_zoo.data.prepare import reading
from transformer_zoo.data.prepare import task_steps
from transformer_zoo.data.prepare.seqio_corruption import CorruptionStep

_NAME = "benchmark_of_seqio"


def read_documents(name, split):
  """Returns the documents of a split, and the seconds that it took."""
  task = seqio.TaskRegistry.get(name)
  key = task_steps.find_text_steps(task_steps.divide_steps(task)[0]).key
  start = time.perf_counter()
  if hasattr(task.source, "documents"):
    documents = [
      text
      for path in task.source.list_shards(split)
      for text in task.source.documents(path, lambda sentence: None)
    ]
  else:
    documents = list(reading.read_texts(task, key, split))
  return documents, time.perf_counter() - start


def measure_tokenising(documents, name, split, new_folder, threads, repeats):
  """Measures the library and `prepare` in turn, on as many threads.

  Args:
    documents: of the split, in memory, for the library.
    name: a registered task of unlabelled text.
    split: one of its splits.
    new_folder: returns an empty folder.
    threads: of the library; processes of `prepare`.
    repeats: of each.
  """
  task = seqio.TaskRegistry.get(name)
  path = task.output_features["targets"].vocabulary.sentencepiece_model_file
  library = sentencepiece.SentencePieceProcessor(model_file=str(path))
  runs = {
    "library": lambda: library.encode(documents, num_threads=threads),
    "prepare": lambda: preparation.prepare(
      name, prepared_dir=new_folder(), splits=[split], processes=threads
    ),
  }
  tokens = sum(map(len, runs["library"]()))
  result = {"tokens": tokens, "threads": threads}
  measured = {run: [] for run in runs}
  for _ in range(repeats):
    for run, function in runs.items():
      measured[run].append(_measure(function))
  for place, unit in enumerate(("second", "cpu_second")):
    rates = {
      run: tokens / statistics.median(times[place] for times in some)
      for run, some in measured.items()
    }
    for run, rate in rates.items():
      result[f"{run}_tokens_per_{unit}"] = rate
    result[f"prepare_of_library_{unit}"] = rates["prepare"] / rates["library"]
  for run, some in measured.items():
    result[f"{run}_seconds"] = [seconds for seconds, _ in some]
  return result


def _measure(function):
  """Returns the seconds and processor seconds of a call and its processes."""
  start, cpu = time.perf_counter(), os.times()
  function()
  seconds, now = time.perf_counter() - start, os.times()
  return seconds, sum(now[:4]) - sum(cpu[:4])


def measure_seqio(documents, name, lengths, batch_size, steps):
  """Measures SeqIO without a cache, documents in memory, as t5's tasks are."""
  task = seqio.TaskRegistry.get(name)
  rates = {"corruption": _corruption(task)[1]}
  rates["tokenising"] = _count(
    _register(task, documents, [])
    .get_dataset(None, split="train", shuffle=False)
    .map(lambda example: tf.size(example["targets"])),
    steps * batch_size,
  )
  with_eos = [
    seqio.CacheDatasetPlaceholder(),
    _corruption(task)[0],
    seqio.preprocessors.append_eos_after_trim,
  ]
  _register(task, documents, with_eos)
  for pack in (False, True):
    dataset = seqio.get_dataset(
      _NAME,
      lengths,
      dataset_split="train",
      shuffle=False,
      num_epochs=None,
      feature_converter=seqio.EncDecFeatureConverter(pack=pack),
    )
    batches = dataset.batch(batch_size, drop_remainder=True).map(
      lambda batch: (
        tf.math.count_nonzero(batch["encoder_input_tokens"])
        + tf.math.count_nonzero(batch["decoder_target_tokens"])
      )
    )
    rates["packed" if pack else "unpacked"] = _count(batches, steps)
  seqio.TaskRegistry.remove(_NAME)
  return {
    f"{name}_tokens_per_second" if name != "corruption" else name: value
    for name, value in rates.items()
  }


def _register(task, documents, steps):
  """Registers a task over documents in memory."""
  if _NAME in seqio.TaskRegistry.names():
    seqio.TaskRegistry.remove(_NAME)

  def read(split, shuffle_files=False, seed=None):
    del split, shuffle_files, seed
    return tf.data.Dataset.from_tensor_slices({"text": documents})

  return seqio.TaskRegistry.add(
    _NAME,
    source=seqio.FunctionDataSource(read, splits=["train"]),
    preprocessors=[
      functools.partial(seqio.preprocessors.rekey, key_map={"targets": "text"}),
      seqio.preprocessors.tokenize,
      *steps,
    ],
    output_features=task.output_features,
  )


def _corruption(task):
  """Returns t5's span corruption where that package is, else the task's."""
  try:
    from t5.data import preprocessors
  except ImportError:
    (step,) = (s for s in task.preprocessors if isinstance(s, CorruptionStep))
    return step, "of the task: the t5 package is not here"
  return preprocessors.span_corruption, "of the t5 package"


def _count(dataset, steps):
  """Returns the tokens per second of a dataset of numbers of tokens."""
  numbers = dataset.prefetch(tf.data.AUTOTUNE).as_numpy_iterator()
  next(numbers)
  start, tokens = time.perf_counter(), 0
  for number, _ in zip(numbers, range(steps), strict=False):
    tokens += int(np.sum(number))
  return tokens / (time.perf_counter() - start)
