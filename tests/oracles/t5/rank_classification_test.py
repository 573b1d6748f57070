"""Prompted choices are those of the t5 package: make test-oracles."""

import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
import tensorflow as tf

from tasks.your_data import prompt_files
from tasks.your_data.prompted import PromptedDataSource
from transformer_zoo.evaluation.answers import post_processors

ROOT = pathlib.Path(__file__).resolve().parents[3]
T5_PACKAGE = pathlib.Path(sys.prefix) / "t5_package"
INPUTS = "{premise} - which {question} ? {{{mark}}}"
FIXED = ["yes, it is", "no", "perhaps \u00fc"]
OF_FIELDS = ["so {choice1}.", "then {choice2}!", "both: {choice1} {choice2}"]
WORDS = ["rain", "\u00fcber", "\U0001f600", "a  b", "it's", '"q"', "-", "42"]


def some_rows(number):
  rng = random.Random(3)

  def text():
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 6)))

  fields = ("premise", "question", "mark", "choice1", "choice2")
  return [
    {field: text() for field in fields}
    # -1 hides a label: no choice is right.
    | {"label": rng.randint(-1, 2), "importance": rng.choice([0.5, 1.0, 3.0])}
    for _ in range(number)
  ]


@pytest.fixture
def theirs():
  """Returns a function from a request to the examples of the t5 package."""
  if not T5_PACKAGE.is_dir():
    pytest.skip(f"no {T5_PACKAGE}: `make test-oracles` installs it")

  def ask(request):
    done = subprocess.run(
      [sys.executable, "-m", "tests.oracles.t5.t5_rank_classification"],
      input=json.dumps(request),
      cwd=ROOT,
      env=os.environ | {"PYTHONPATH": f"{T5_PACKAGE}{os.pathsep}{ROOT}"},
      capture_output=True,
      text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])

  return ask


class _Rows:
  """As much of a SeqIO source as is asked for."""

  splits = ("train", "validation")

  def __init__(self, rows):
    self._columns = {field: [row[field] for row in rows] for field in rows[0]}

  def get_dataset(self, **unused):
    return tf.data.Dataset.from_tensor_slices(self._columns)


@pytest.mark.parametrize("choices", [FIXED, OF_FIELDS])
def test_examples_are_those_of_t5(theirs, choices):
  rows = some_rows(300)
  prompt = prompt_files.Prompt(
    name="oracle",
    input=INPUTS,
    target="{choice}",
    choices=tuple(choices),
    words={},
    label="label",
    labels=(),
    weight="importance",
  )
  source = PromptedDataSource(_Rows(rows), prompt)
  request = {
    "rows": rows,
    # Braces need no second one in t5.
    "inputs": INPUTS.replace("{{{mark}}}", "{ {mark} }"),
    "choices": choices,
    "weight": "importance",
  }
  ours = [
    {
      "inputs": example["inputs"].decode(),
      "targets": example["targets"].decode(),
      "idx": example["idx"].tolist(),
      "is_correct": bool(example["is_correct"]),
      "weight": float(example["weight"]),
    }
    for example in source.get_dataset("validation").as_numpy_iterator()
  ]
  expected = theirs(request | {"mode": "eval"})
  assert len(expected) == 900
  for our, their in zip(ours, expected, strict=True):
    target = their.pop("target")
    their["inputs"] = their["inputs"].replace("{ ", "{").replace(" }", "}")
    our_target = post_processors.rank_classification(
      "", example=our | {"targets": [1, 2]}, is_target=True
    )
    assert our == their
    assert [list(our_target[0]), *our_target[1:]] == target

  expected = theirs(request | {"mode": "train"})
  ours = source.get_dataset("train").as_numpy_iterator()
  for our, their in zip(ours, expected, strict=True):
    assert our["targets"].decode() == their["targets"]
