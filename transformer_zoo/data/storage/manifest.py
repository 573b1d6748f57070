"""Manifests: descriptions of prepared tasks and mixtures in their folders.

A prepared folder holds

    vocabularies/<checksum>.model
    <task>/manifest.json
    <task>/<split>-00000-of-00008.array_record    records, or
    <task>/<split>-00000-of-00008.tokens          ids
    <task>/<split>.<table>.npy                    arrays over all shards
    <mixture>.mixture.json                        its tasks and their rates

Two kinds of task: `examples` has one record per example, a msgpack map of each
feature to int32 bytes and of `text` to the JSON-able rest of the example;
`tokens` is the joined token stream of unlabelled text, without EOS, as bare ids
(`PreparedTask.token_dtype`). A split is the concatenation of its shards.

Tables: `checksums` has a CRC-32 per block of the shards (`integrity.py`);
`lengths` (of 'examples') is int32 [examples, features], untrimmed;
`document_ends` and, where the task splits sentences, `sentence_ends` (of
'tokens') are int64, exclusive offsets into the stream.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import hashlib
import json
import os
import pathlib
from typing import Any

import numpy as np

from transformer_zoo import schemas
from transformer_zoo.data.features import forms
from transformer_zoo.data.storage import integrity
from transformer_zoo.data.vocabularies import BYTES
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.schemas import Required


@dataclasses.dataclass(frozen=True)
class Shard(integrity.StoredFile):
  """A record file.

  Attributes:
    num_examples: examples, or documents of a `tokens` task.
    num_tokens: tokens of all features together.
  """

  num_examples: int
  num_tokens: int


@dataclasses.dataclass(frozen=True)
class SplitInfo:
  """One split of a prepared task.

  Attributes:
    num_examples: examples, or documents of a `tokens` task.
    num_tokens: tokens of all features together, untrimmed, EOS counted.
    quantiles: feature -> {percentile: length in tokens}; percentiles are '0',
      '50', '90', '99', '100'; of documents in a `tokens` task.
    shards: the record files, in order.
    tables: the arrays beside them, by name.
    num_skipped: bad rows that were left out, as --skip_bad_rows asks.
  """

  num_examples: int
  num_tokens: int
  quantiles: dict[str, dict[str, int]]
  shards: tuple[Shard, ...]
  tables: dict[str, integrity.StoredFile]
  num_skipped: int = 0  # a manifest may lack it

  @property
  def num_bytes(self) -> int:
    """Size of the record files together."""
    return sum(shard.num_bytes for shard in self.shards)

  def summary(self) -> str:
    """Returns how much it is, for a line that is printed."""
    what = "documents" if "document_ends" in self.tables else "examples"
    shards = f"{len(self.shards)} shard" + "s" * (len(self.shards) > 1)
    return (
      f"{self.num_examples:,} {what}, {self.num_tokens:,} tokens, {shards}, "
      f"{self.num_bytes / 1e6:.1f} MB"
    )

  @property
  def checksum(self) -> str:
    """A checksum of all files, in hexadecimal."""
    files = [*self.shards, *self.tables.values()]
    text = " ".join(file.sha256 for file in files)
    return hashlib.sha256(text.encode()).hexdigest()

  @classmethod
  def from_json(cls, content: dict[str, Any]) -> "SplitInfo":
    """Returns what `dataclasses.asdict` took apart."""
    return cls(
      **content
      | {
        "shards": tuple(Shard(**shard) for shard in content["shards"]),
        "tables": {
          name: integrity.StoredFile(**table)
          for name, table in content["tables"].items()
        },
      }
    )


Path = str | os.PathLike[str]

FORMAT = 3  # raised when the record files change their meaning
VOCABULARIES = "vocabularies"
_OF_PATHS = "/\\\0"

_NUMBER, _TEXT = Required(int), Required(str)
_FILE = {"name": _TEXT, "num_bytes": _NUMBER, "sha256": _TEXT}
_SPLIT = {
  "num_examples": _NUMBER,
  "num_tokens": _NUMBER,
  "quantiles": Required({str: {str: int}}),
  "shards": Required(
    [{**_FILE, "num_examples": _NUMBER, "num_tokens": _NUMBER}]
  ),
  "tables": Required({str: _FILE}),
  "num_skipped": int,
}
_TASK = {
  "name": _TEXT,
  "kind": Required(("examples", "tokens")),
  "features": Required([str]),
  "vocabulary": Required(
    {"file": _TEXT, "extra_ids": _NUMBER, "kind": str, "lower_case": bool}
  ),
  "eos_after_trim": Required(bool),
  "corruption": Required((dict, None)),
  "corruption_seed": _NUMBER,
  "splits": Required({str: _SPLIT}),
  "scoring": Required(
    (
      {
        "postprocess": Required((dict, None)),
        "metrics": Required([dict]),
        "score_metrics": [dict],
      },
      None,
    )
  ),
  "definition": _TEXT,
  "trimming": (dict, None),
  "form": (dict, None),
  "template_of": (str, None),
}
_MIXTURE = {"tasks": Required([str]), "rates": Required([float])}


@dataclasses.dataclass(frozen=True)
class Scoring:
  """The scoring of predictions, importable without TensorFlow.

  Attributes:
    postprocess: {'function': 'module:name', 'kwargs': {...}}, or None.
    metrics: the same for each metric of (targets, predictions).
    score_metrics: The references of the metrics of (targets, scores); a score
      is the summed log-likelihood of an example's targets.
  """

  postprocess: dict[str, Any] | None
  metrics: tuple[dict[str, Any], ...]
  score_metrics: tuple[dict[str, Any], ...] = ()


@dataclasses.dataclass(frozen=True)
class PreparedTask:
  """A task as record files.

  Attributes:
    name: the task's.
    folder: The folder of the task's files.
    kind: 'examples' or 'tokens'.
    features: the features an example gets in the end.
    vocabulary: The vocabulary of all features.
    eos_after_trim: a trimmed example still ends in EOS.
    corruption: the spec of the task's corruption ('tokens' only).
    corruption_seed: The seed of the task's `CorruptionStep`, used in
      evaluation.
    splits: name -> files and counts.
    scoring: None where the task has no metric.
    definition: hash of all that the records depend on.
    trimming: spec of how long examples are cut (trimming.py); None: at their
      end.
    form: what the pieces of an encoder's example are (features/forms.py):
      {'form': its name, and the names of classes or tags}; None for the ids of
      whole inputs and targets.
    template_of: The name of the set of rows of which the task is one template
      of several; None for a task that is none.
  """

  name: str
  folder: str
  kind: str
  features: tuple[str, ...]
  vocabulary: Vocabulary
  eos_after_trim: bool
  corruption: dict[str, Any] | None
  corruption_seed: int
  splits: dict[str, SplitInfo]
  scoring: Scoring | None
  definition: str
  trimming: dict[str, Any] | None = None  # manifests of version 0.1 lack it
  form: dict[str, Any] | None = None  # a manifest may lack it
  template_of: str | None = None  # a manifest may lack it

  @property
  def class_names(self) -> tuple[str, ...]:
    """The names of the classes or tags of an encoder's form, or none."""
    return class_names(self.form)

  @property
  def token_dtype(self) -> str:
    """The stored type of a 'tokens' task's ids: two bytes if all ids fit."""
    return "<u2" if self.vocabulary.size <= 1 << 16 else "<i4"

  def split(self, name: str) -> SplitInfo:
    """Returns the split of that name.

    Raises:
      UserError: the task does not have it.
    """
    if name not in self.splits:
      raise UserError(
        f"Task {self.name!r} has no split {name!r}" + nearest(name, self.splits)
      )
    return self.splits[name]

  def record_files(self, split: str) -> list[str]:
    """Returns the paths of a split's shards, after checking the files.

    Raises:
      UserError: a file is absent, or its size is not the one in the manifest,
        or (where the split is small enough to be read through) its content is
        not what was written.
    """
    info = self.split(split)
    paths = [os.path.join(self.folder, shard.name) for shard in info.shards]
    for path, shard in zip(paths, info.shards, strict=True):
      integrity.check_size(path, shard.num_bytes)
    if info.num_bytes <= integrity.LARGEST_CHECKED:
      for path, checksums in zip(paths, self.checksums(split), strict=True):
        integrity.check_blocks(path, checksums)
    return paths

  def checksums(self, split: str) -> list[np.ndarray]:
    """Returns the CRC-32 of the blocks of each shard, uint32 [blocks] each."""
    sizes = [shard.num_bytes for shard in self.split(split).shards]
    counts = [-(-size // integrity.BLOCK_BYTES) for size in sizes]
    return np.split(self.table(split, "checksums"), np.cumsum(counts)[:-1])

  def table(self, split: str, name: str) -> np.ndarray:
    """Returns an array beside the shards of a split, memory-mapped.

    Raises:
      UserError: the file is absent or damaged.
    """
    stored = self.split(split).tables[name]
    path = os.path.join(self.folder, stored.name)
    integrity.check_whole(path, stored)
    return np.load(path, mmap_mode="r")

  def lengths(self, split: str) -> np.ndarray:
    """Returns the untrimmed lengths of a split: int32 [examples, features].

    Raises:
      UserError: the file is absent or damaged.
    """
    return self.table(split, "lengths")


def class_names(form: Mapping[str, Any] | None) -> tuple[str, ...]:
  """Returns the names of classes or tags in `PreparedTask.form`, or none."""
  form = form or {}
  return tuple(form.get(form.get("form")) or ())


@dataclasses.dataclass(frozen=True)
class PreparedMixture:
  """Prepared tasks and how often each is drawn; a task alone has rate 1."""

  name: str
  tasks: tuple[PreparedTask, ...]
  rates: tuple[float, ...]

  @property
  def class_names(self) -> tuple[str, ...]:
    """Those of `PreparedTask` that all tasks have; none if they differ."""
    found = {task.class_names for task in self.tasks}
    return found.pop() if len(found) == 1 else ()


def save_task(task: PreparedTask, folder: Path) -> None:
  """Writes the manifest of `task` into `folder`, whole or not at all."""
  content = dataclasses.asdict(task)
  del content["folder"]  # known from where the manifest is
  for name in ("form", "template_of"):
    if content[name] is None:
      del content[name]
  content["format"] = FORMAT
  content["vocabulary"] = vocabulary_to_json(task.vocabulary)
  _write_json(pathlib.Path(folder) / "manifest.json", content)


def save_mixture(mixture: PreparedMixture, prepared_dir: Path) -> None:
  """Writes the tasks and rates of `mixture` into `prepared_dir`."""
  content = {
    "name": mixture.name,
    "tasks": [task.name for task in mixture.tasks],
    "rates": list(mixture.rates),
  }
  _write_json(_mixture_file(mixture.name, prepared_dir), content)


def load(name: str, prepared_dir: Path) -> PreparedMixture:
  """Returns the prepared mixture, or task, of that name.

  Raises:
    UserError: it has not been prepared, or its manifest is damaged.
  """
  path = _mixture_file(name, prepared_dir)
  if path.exists():
    content = _read_json(path, _MIXTURE)
    tasks = tuple(load_task(task, prepared_dir) for task in content["tasks"])
    return PreparedMixture(name, tasks, tuple(content["rates"]))
  return PreparedMixture(name, (load_task(name, prepared_dir),), (1.0,))


def _forms_of(name: str, there: Sequence[str]) -> str:
  """Returns a clause on the forms of a task that are prepared, or ""."""
  task, form = forms.split_name(name)
  if form is None:
    return ""
  split = map(forms.split_name, there)
  found = [repr(other) for base, other in split if base == task and other]
  return f"; {task!r} is prepared in {', '.join(found) or 'none'} of the forms"


def load_task(name: str, prepared_dir: Path) -> PreparedTask:
  """Returns the prepared task of that name.

  Raises:
    UserError: it has not been prepared, or its manifest is damaged.
  """
  prepared_dir = pathlib.Path(prepared_dir)
  folder = folder_of(name, prepared_dir)
  path = folder / "manifest.json"
  if not path.exists():
    there = [p.parent.name for p in prepared_dir.glob("*/manifest.json")]
    there += [
      p.name.removesuffix(".mixture.json")
      for p in prepared_dir.glob("*.mixture.json")
    ]
    raise UserError(
      f"Nothing named {name!r} is prepared in {str(prepared_dir)!r}; run "
      "`zoo prepare` first" + (_forms_of(name, there) or nearest(name, there))
    )
  content = _read_json(path, schema={})
  if content.get("format") != FORMAT:
    raise UserError(
      f"The prepared files in {str(folder)!r} have format "
      f"{content.get('format')!r}, not {FORMAT}; run `zoo prepare` again."
    )
  content = _read_json(path, _TASK)
  del content["format"]
  scoring = content["scoring"]
  return PreparedTask(
    **content
    | {
      "folder": str(folder),
      "features": tuple(content["features"]),
      "vocabulary": vocabulary_from_json(
        content["vocabulary"], prepared_dir / VOCABULARIES
      ),
      "splits": {
        name: SplitInfo.from_json(split)
        for name, split in content["splits"].items()
      },
      "scoring": scoring
      and Scoring(
        scoring["postprocess"],
        tuple(scoring["metrics"]),
        tuple(scoring.get("score_metrics", ())),
      ),
    }
  )


def folder_of(name: str, prepared_dir: Path) -> pathlib.Path:
  """Returns the folder of a task in `prepared_dir`.

  Args:
    name: The name of a task, or of a mixture, whose files lie beside it.
    prepared_dir: The folder of prepared data.

  Raises:
    UserError: Another folder has the name.
  """
  if (
    name in ("", VOCABULARIES)
    or name.startswith(".")
    or not {*name}.isdisjoint(_OF_PATHS)
  ):
    raise UserError(
      f"{name!r} cannot be the name of a task or mixture, whose files lie in a "
      "folder of that name: choose one without slashes and NUL characters, "
      f"that does not begin with a dot and is not {VOCABULARIES!r}"
    )
  return pathlib.Path(prepared_dir) / name


def _mixture_file(name: str, prepared_dir: Path) -> pathlib.Path:
  return folder_of(name, prepared_dir).with_name(f"{name}.mixture.json")


def _read_json(path: pathlib.Path, schema: schemas.Schema) -> dict[str, Any]:
  try:
    return schemas.read(path, schema)
  except UserError as error:
    raise UserError(
      f"The manifest {str(path)!r} cannot be read: {error}; delete it and run "
      "`zoo prepare` again."
    ) from None


def _write_json(path: pathlib.Path, content: dict[str, Any]) -> None:
  """Renames a finished temporary file: a reader sees the old or the new."""
  temporary = path.with_name(f".{path.name}.{os.getpid()}")
  text = json.dumps(content, indent=2, sort_keys=True) + "\n"
  temporary.write_text(text, encoding="utf-8")
  os.replace(temporary, path)


def vocabulary_to_json(vocabulary: Vocabulary) -> dict[str, Any]:
  """Returns the description of a stored vocabulary in a manifest."""
  return {
    "kind": vocabulary.kind,
    "file": os.path.basename(vocabulary.path),
    "extra_ids": vocabulary.extra_ids,
    "lower_case": vocabulary.lower_case,
    "size": vocabulary.size,
    "sha256": vocabulary.checksum,
  }


def vocabulary_from_json(
  content: Mapping[str, Any], folder: pathlib.Path
) -> Vocabulary:
  """Inverse of `vocabulary_to_json` for the vocabularies stored in `folder`.

  Manifests of version 0.1, of SentencePiece models alone, say no kind and case.
  """
  path = content["file"]
  if content.get("kind") != BYTES:
    path = folder / path
  return Vocabulary(
    path, content["extra_ids"], content.get("lower_case", False)
  )
