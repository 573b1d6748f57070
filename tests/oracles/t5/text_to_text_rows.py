"""Examples of a task from the rows of a data set, one line for each.

Two processes write these lines with their own tasks: the tests with ours,
`t5_package` with those of the t5 package. A request that both understand is
    {'task': name, 'dataset': name of a TFDS dataset, 'split': name} or
    {'task': name, 'dataset': name, 'rows': [row, ...]} or
    {'task': name, 'spec': {feature: dtype}, 'rows': [row, ...]}
with rows in memory, which have the features of the dataset or those given.
"""

from collections.abc import Iterator
import json
import tempfile
from typing import Any

import numpy as np
import seqio
import tensorflow as tf
import tensorflow_datasets as tfds

# Rows beyond this one are asked for some of the predictions only.
_EVERY_PREDICTION = 500
_ERROR = json.dumps(["error"])


def lines(request: dict[str, Any], data_dir: str) -> Iterator[str]:
  """Yields JSON of [fields, target, predictions] for each example.

  A row in memory on which the task fails gives `["error"]`.
  """
  task = seqio.TaskRegistry.get(request["task"])
  dataset = _dataset(request, data_dir)
  for step in task.preprocessors:
    if step is seqio.preprocessors.tokenize:
      break
    dataset = step(dataset)
  last = ""
  for number, example in enumerate(_examples(dataset, request)):
    if example is None:
      yield _ERROR
    else:
      line, last = _line(task, example, number, last)
      yield line


def features(dataset: str) -> tfds.features.FeaturesDict:
  """Returns the features of a TFDS dataset, which need not be on disk."""
  with tempfile.TemporaryDirectory() as empty:
    return tfds.builder(dataset, data_dir=empty).info.features


def raw_rows(dataset: str, split: str, data_dir: str) -> list[dict[str, Any]]:
  """Returns the rows of a TFDS dataset as they may stand in a request."""
  request = {"dataset": dataset, "split": split}
  rows = _dataset(request, data_dir).as_numpy_iterator()
  return [_plain(row) for row in rows]


def predictions(target: str, other: str) -> list[str]:
  """Returns texts a model might give where `target` is asked for.

  Args:
    target: the right text.
    other: that of another row.
  """
  half = target[: len(target) // 2]
  words = target.split()
  return [
    target,
    other,
    "",
    target.upper(),
    f"the {target}",
    f"  {target} ",
    target.replace(" ", "  "),
    f"{target}'s",
    half,
    " ".join(words[1:]),
    " ".join(reversed(words)),
    f"{target} {other}",
    f"{target}.",
    f"\t{target}\n",
    " ",
    "a  the",
    "a",
    "True",
    "-1",
    "3.8",
    "1e2",
    "nan",
    "-inf",
    "start: 1 end: 2",
    f"<extra_id_0> {target}",
    f"<extra_id_0>{target} <extra_id_0>",
    "naïve ☃ 漢字",
    "<unk>",
  ]


def _examples(
  dataset: tf.data.Dataset, request: dict[str, Any]
) -> Iterator[dict[str, Any] | None]:
  """Yields each example as Python values; None for a row that fails."""
  if "rows" not in request:  # batches for speed: 10 times faster
    for batch in dataset.ragged_batch(512).prefetch(1).as_numpy_iterator():
      columns = {key: _plain_list(value) for key, value in batch.items()}
      for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))
    return
  examples = dataset.as_numpy_iterator()
  # Errors do not end the dataset, and should one do so: they come to an end.
  for _ in range(50 * len(request["rows"])):
    try:
      example = next(examples)
    except StopIteration:
      return
    except (tf.errors.OpError, ValueError):
      yield None
    else:
      yield {key: _as_python(value) for key, value in example.items()}


def _as_python(value: Any) -> Any:
  """Returns a numpy value as numbers, bytes and lists of them."""
  is_numpy = isinstance(value, (np.generic, np.ndarray))
  return value.tolist() if is_numpy else value


def _plain_list(column: Any) -> list[Any]:
  """Returns a batch of values, of arrays or ragged, as a list."""
  return column.to_list() if hasattr(column, "to_list") else column.tolist()


def _dataset(request: dict[str, Any], data_dir: str) -> tf.data.Dataset:
  if "rows" not in request:
    builder = tfds.builder(request["dataset"], data_dir=data_dir)
    read_config = tfds.ReadConfig(skip_prefetch=True)
    return builder.as_dataset(split=request["split"], read_config=read_config)
  if "spec" in request:
    spec = {
      name: tf.TensorSpec([], dtype) for name, dtype in request["spec"].items()
    }
  else:
    spec = features(request["dataset"]).get_tensor_spec()
  return tf.data.Dataset.from_generator(
    lambda: iter(request["rows"]), output_signature=spec
  )


def _line(
  task: seqio.Task, example: dict[str, Any], number: int, other: str
) -> tuple[str, str]:
  """Returns the line of an example, and its target."""
  target = _text(example["targets"])
  example = example | {"targets_pretokenized": example["targets"]}
  texts = predictions(target, other)
  if number >= _EVERY_PREDICTION:
    texts = [target, *(texts[(number + i) % len(texts)] for i in (0, 7, 13))]

  def answer(text: str, is_target: bool) -> Any:
    return task.postprocess_fn(text, example=example, is_target=is_target)

  content = [
    dict(sorted(_plain(example).items())),
    _plain(answer(target, True)),
    [[text, _plain(answer(text, False))] for text in texts],
  ]
  return json.dumps(content, ensure_ascii=False), target


def _plain(value: Any) -> Any:
  """Returns JSON values for bytes, numpy values, and what holds them."""
  value = _as_python(value)
  if isinstance(value, bytes):
    return _text(value)
  if isinstance(value, dict):
    return {key: _plain(item) for key, item in value.items()}
  if isinstance(value, (list, tuple)):
    return [_plain(item) for item in value]
  return value


def _text(value: bytes) -> str:
  return value.decode("utf-8", "backslashreplace")
