"""A look at a task: examples as text and ids, lengths, truncation."""

from collections.abc import Mapping, Sequence
import itertools
import os
from typing import Any

import numpy as np

from transformer_zoo.data import user_modules
from transformer_zoo.data import vocabularies
from transformer_zoo.data.prepare import fingerprints
from transformer_zoo.data.prepare import reading
from transformer_zoo.data.prepare import task_steps
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

QUANTILES = {"50 %": 0.5, "90 %": 0.9, "99 %": 0.99, "longest": 1.0}
# T5's pre-training lengths (Raffel et al. 2020, sections 3.1.2 and 3.1.4): a
# corruption needs lengths to cut its chunks.
CORRUPTED_LENGTHS = {"inputs": 512, "targets": 114}
# BERT's (Devlin et al. 2019, appendix A.2).
_ENCODER_LENGTHS = {"inputs": 512, "targets": 512}


def registered_task(name: str) -> Any:
  """Returns a registered SeqIO task.

  Raises:
    UserError: There is none of this name.
  """
  import seqio  # pylint: disable=g-import-not-at-top

  names = seqio.TaskRegistry.names()
  if name not in names:
    raise UserError(
      f"no task is named {name!r}{nearest(name, names)}{user_modules.HINT}"
    )
  return seqio.TaskRegistry.get(name)


def inspect_task(
  task: Any,
  *,
  split: str,
  lengths: Mapping[str, int],
  shown: int = 5,
  measured: int = 1000,
) -> dict[str, Any]:
  """Reads the first examples of a split.

  Args:
    task: a SeqIO task.
    split: one of its splits.
    lengths: The lengths by feature, {name: tokens}; the share of truncated
      examples is reported for these features.
    shown: examples that are returned as text and ids.
    measured: examples whose lengths are measured.

  Returns:
    JSON: `form` (of an encoder's example, as in a manifest, or None), `files`
    (of the split: `number`, `bytes`), `examples` (a list of {feature: {text,
    ids}}, and in a form `target`, the target text), `measured` (how many there
    were), `skipped` (a sentence per bad row), and for each of `features` the
    `quantiles` of its length in tokens with EOS and, for a feature with a
    length, the `truncated` share.

  Raises:
    UserError: the task has no such split, bad rows or a bad vocabulary, or
      `lengths` names no feature.
  """
  if split not in task.splits:
    raise UserError(
      f"task {task.name!r} has no split {split!r}{nearest(split, task.splits)}"
    )
  features = task.output_features
  for name in lengths:
    if name not in features:
      raise UserError(
        f"--length names {name!r}, which is no feature of task {task.name!r}"
        f"{nearest(name, features)}"
      )
  for feature in features.values():
    # SeqIO would crash on a bad one in the middle of a page of TensorFlow's.
    vocabularies.from_seqio(feature.vocabulary).check()
  dataset = task.get_dataset(
    sequence_length=_chunk_lengths(task, lengths),
    split=split,
    shuffle=False,
  )
  examples, sizes = [], {name: [] for name in features}
  skipped = list(getattr(task.source, "skipped_rows", lambda _: [])(split))
  on_bad = skipped.append if fingerprints.skips_bad_rows() else None
  read = reading.one_by_one(dataset, task, f"split {split!r}", 0, on_bad)
  for example in itertools.islice(read, max(shown, measured)):
    if len(examples) < shown:
      examples.append(_readable(example, features))
    for name in features:
      sizes[name].append(len(example[name]))
  count = len(next(iter(sizes.values())))
  if not count:
    raise UserError(f"split {split!r} of task {task.name!r} is empty")
  return {
    "task": task.name,
    "split": split,
    "form": task_steps.find_form(task.preprocessors),
    "files": _measure_files(task.source.list_shards(split)),
    "measured": count,
    "skipped": skipped,
    "examples": examples,
    "features": {
      name: _measure(np.asarray(sizes[name]), lengths.get(name))
      for name in features
    },
  }


def _chunk_lengths(
  task: Any, lengths: Mapping[str, int]
) -> dict[str, int] | None:
  """Returns the lengths that a corruption cuts text for; None without one."""
  for step in task.preprocessors:
    if type(step).__name__ == "CorruptionStep":
      layout = step.corruption.layout
      usual = _ENCODER_LENGTHS if layout == "encoder" else CORRUPTED_LENGTHS
      return {**usual, **lengths}
  return None


def _measure_files(files: Sequence[Any]) -> dict[str, int]:
  """Returns the number and size of the files of a source that are there."""
  paths = [str(getattr(file, "filename", file)) for file in files]
  sizes = [os.path.getsize(path) for path in paths if os.path.isfile(path)]
  return {"number": len(sizes), "bytes": sum(sizes)}


def _readable(example: Mapping[str, Any], features: Mapping[str, Any]) -> dict:
  found = {}
  for name, feature in features.items():
    ids = np.asarray(example[name]).tolist()
    before = example.get(f"{name}_pretokenized")
    text = (
      before.decode("utf-8")
      if isinstance(before, bytes)
      else feature.vocabulary.decode(ids)
    )
    found[name] = {"text": text, "ids": ids}
  if "targets" not in features and "targets_pretokenized" in example:
    target = example["targets_pretokenized"].decode("utf-8")
    found["target"] = {"text": target, "ids": []}
  return found


def _measure(sizes: np.ndarray, length: int | None) -> dict[str, Any]:
  found = {
    "quantiles": {
      name: int(np.quantile(sizes, share, method="higher"))
      for name, share in QUANTILES.items()
    }
  }
  if length is not None:
    found["truncated"] = float((sizes > length).mean())
  return found
