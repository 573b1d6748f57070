"""Prepared tasks for encoders, of a form and of text, without SeqIO."""

import pathlib
import shutil

import numpy as np

from tests import prepared_splits
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary

CLASSES = ("red", "green", "blue")


def write_classes(vocabularies: pathlib.Path, prepared_dir: pathlib.Path):
  """Writes `colours:classes`: which colour does a sentence begin with?

  Args:
    vocabularies: The folder of `tiny.model`, which is copied.
    prepared_dir: The folder of prepared data.
  """
  shutil.copytree(vocabularies, prepared_dir / "vocabularies")
  path = prepared_dir / "vocabularies" / "tiny.model"
  vocabulary = Vocabulary(str(path), extra_ids=10)

  def example(number):
    colour = CLASSES[number % 3]
    text = f"{colour} {('car', 'boat', 'house')[number // 3 % 3]} sees"
    return {
      "first": np.array(vocabulary.encode(text), np.int32),
      "second": np.array(vocabulary.encode(colour), np.int32),
      "label": number % 3,
      "inputs_pretokenized": text,
      "targets_pretokenized": colour,
    }

  folder = prepared_dir / "colours:classes"
  folder.mkdir()
  accuracy = {
    "function": "transformer_zoo.evaluation.metrics.classification:accuracy",
    "kwargs": {},
  }
  task = manifest.PreparedTask(
    name=folder.name,
    folder=str(folder),
    kind="examples",
    features=("first", "second"),
    vocabulary=vocabulary,
    eos_after_trim=False,
    corruption=None,
    corruption_seed=0,
    splits={},
    scoring=manifest.Scoring(None, (accuracy,)),
    definition="",
    form={"form": "classes", "classes": list(CLASSES)},
  )
  for split, numbers in (("train", range(60)), ("validation", range(18))):
    examples = [example(number) for number in numbers]
    task.splits[split] = prepared_splits.write_split(
      examples, split, task, folder
    )
  manifest.save_task(task, folder)


def write_text(prepared_dir: pathlib.Path):
  """Writes `text`, documents of the vocabulary beside without sentinels.

  Args:
    prepared_dir: The folder of `write_classes`.
  """
  path = prepared_dir / "vocabularies" / "tiny.model"
  folder = prepared_dir / "text"
  folder.mkdir()
  task = manifest.PreparedTask(
    name="text",
    folder=str(folder),
    kind="tokens",
    features=("inputs", "targets"),
    vocabulary=Vocabulary(str(path), extra_ids=0),
    eos_after_trim=False,
    corruption=None,
    corruption_seed=0,
    splits={},
    scoring=None,
    definition="",
  )
  documents = [{"targets": np.arange(5, 25, dtype=np.int32)}] * 20
  for split in ("train", "validation"):
    task.splits[split] = prepared_splits.write_split(
      documents, split, task, folder
    )
  manifest.save_task(task, folder)
