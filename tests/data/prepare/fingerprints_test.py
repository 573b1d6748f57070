"""Fingerprints of steps and sources, of a user's module imported anew."""

import contextlib
import functools
import importlib
import io
import json
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest

from transformer_zoo.data.prepare import fingerprints

pytest.importorskip("tensorflow")
ROOT = pathlib.Path(__file__).parents[3]
NAME = "values_of_test"
STEPS = """
import decimal
import enum
import functools
import pathlib
import re

import numpy as np
import tensorflow as tf


class Style(enum.Enum):
  NLI = "first"
  OTHER = "second"


class Inner:
  def __init__(self, text):
    self._text = text


class Private:
  def __init__(self, *values):
    self._values = values

  def __call__(self, dataset):
    return dataset


class Versioned:
  version = 1


def step(dataset, value=None):
  return dataset


@functools.wraps(len)
def decorated(dataset):
  return dataset


NOTHING = 1
path = functools.partial(step, value=pathlib.PurePosixPath("nli.txt"))
style = functools.partial(step, value=Style.NLI)
array = functools.partial(step, value=np.array(["nli"]))
nested = functools.partial(step, value={"a": [np.float32(1.5)]})
number = functools.partial(step, value=decimal.Decimal("1.5"))
tensor = functools.partial(step, value=tf.constant("nli"))
ragged = functools.partial(step, value=tf.ragged.constant([["nli"], []]))
pattern = functools.partial(step, value=re.compile("a+"))
words = functools.partial(step, value={"nli", "b"})
private = Private("nli")
deeper = Private({"a": ["nli", 1.5]})
inner = Private(Inner("nli"))
given_function = functools.partial(sorted, key=step)
versioned = Versioned()
mapped = (lambda value: lambda dataset: value)(np.array(["nli"]))
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
  """Returns a function that imports the steps, with one text changed."""
  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.setattr(sys, "dont_write_bytecode", True)

  def write(before="", after=""):
    (tmp_path / f"{NAME}.py").write_text(STEPS.replace(before, after))
    sys.modules.pop(NAME, None)
    sys.modules.pop("base_of_test", None)
    importlib.invalidate_caches()
    return importlib.import_module(NAME)

  yield write
  sys.modules.pop(NAME, None)


@pytest.mark.parametrize(
  "step, before, after",
  [
    ("path", "nli.txt", "other.txt"),
    ("style", "value=Style.NLI", "value=Style.OTHER"),
    ("array", 'np.array(["nli"]))\nnested', 'np.array(["other"]))\nnested'),
    ("nested", "np.float32(1.5)", "np.float32(2.5)"),
    ("number", 'Decimal("1.5")', 'Decimal("2.5")'),
    ("tensor", 'constant("nli")', 'constant("other")'),
    ("ragged", '[["nli"], []]', '[["other"], []]'),
    ("pattern", '"a+"', '"b+"'),
    ("words", '{"nli", "b"}', '{"other", "b"}'),
    ("private", 'Private("nli")', 'Private("other")'),
    ("deeper", '["nli", 1.5]', '["nli", 2.5]'),
    ("inner", 'Inner("nli")', 'Inner("other")'),
    ("mapped", 'np.array(["nli"]))\n', 'np.array(["other"]))\n'),
    ("versioned", "version = 1", "version = 2"),
  ],
)
def test_another_argument_changes_the_description(load, step, before, after):
  assert STEPS.count(before)
  old = json.dumps(fingerprints.describe(getattr(load(), step)))
  assert json.dumps(fingerprints.describe(getattr(load(), step))) == old
  changed = getattr(load(before, after), step)
  assert json.dumps(fingerprints.describe(changed)) != old
  assert " at 0x" not in old


@pytest.mark.parametrize(
  "step", ["step", "path", "inner", "mapped", "decorated", "given_function"]
)
def test_a_change_anywhere_in_the_module_changes_its_hash(load, step):
  old = fingerprints.hash_modules(getattr(load(), step))
  assert NAME in old
  assert fingerprints.hash_modules(getattr(load(), step)) == old
  changed = getattr(load("NOTHING = 1", "NOTHING = 20"), step)
  assert fingerprints.hash_modules(changed) != old


def test_a_base_class_in_another_module_is_covered(load, tmp_path):
  (tmp_path / "base_of_test.py").write_text("class Base:\n  mark = 1\n")
  cls = "\n\nfrom base_of_test import Base\n\n\nclass Derived(Base):\n  pass\n"
  old = fingerprints.hash_modules(load("NOTHING = 1", cls).Derived())
  assert set(old) == {NAME, "base_of_test"}
  (tmp_path / "base_of_test.py").write_text("class Base:\n  mark = 10\n")
  assert fingerprints.hash_modules(load("NOTHING = 1", cls).Derived()) != old


def test_installed_packages_are_left_out():
  seqio = pytest.importorskip("seqio")
  assert not fingerprints.hash_modules(
    seqio.preprocessors.tokenize, json.dumps, np.array
  )


def test_a_function_without_a_file_is_described_by_its_code():
  def compiled(text):
    names = {"__name__": "made_in_memory"}
    exec(f"def step(dataset):\n  return dataset{text}", names)  # noqa: S102
    return fingerprints.hash_modules(names["step"])

  assert compiled("") == compiled("")
  assert compiled("") != compiled(".name")


@pytest.mark.slow
def test_the_same_in_every_process(load, tmp_path):
  load()
  script = (
    "from transformer_zoo.data.prepare import fingerprints\n"
    f"import {NAME} as steps\n"
    "values = [steps.words, steps.inner, steps.mapped, steps.deeper]\n"
    "print([fingerprints.describe(value) for value in values])\n"
    "print(fingerprints.hash_modules(*values))\n"
  )
  here = io.StringIO()
  with contextlib.redirect_stdout(here):
    exec(script, {})
  # With other hashes of texts than here.
  seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
  there = subprocess.run(
    [sys.executable, "-c", script],
    env=os.environ
    | {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    capture_output=True,
    text=True,
    check=True,
  ).stdout
  assert NAME in there
  assert there == here.getvalue()


class Step:
  def __init__(self, prefix):
    self.prefix = prefix
    self._cache = {}
    self._table = None

  @functools.cached_property
  def _pool(self):
    return [self.prefix]

  @functools.cached_property
  def pool(self):
    return [self.prefix]

  def __call__(self, dataset):
    self._cache["a"] = 1
    self._table = [2]
    self._late = 3
    return self._pool + self.pool


def test_values_that_a_step_keeps_while_it_works_are_left_out():
  step = Step("nli: ")
  before = fingerprints.describe(step)
  step(None)
  assert fingerprints.describe(step) == before
  assert fingerprints.describe(Step("nli: ")) == before
  assert fingerprints.describe(Step("other: ")) != before


def test_a_data_folder_may_be_moved_and_spelled_another_way(
  tmp_path, monkeypatch
):
  def described(folder):
    source = types.SimpleNamespace(
      splits=("train",), list_shards=lambda split: [f"{folder}/{split}.txt"]
    )
    return fingerprints.describe_source(source)

  (tmp_path / "data").mkdir()
  (tmp_path / "data" / "train.txt").write_text("some text")
  before = described(tmp_path / "data")
  monkeypatch.chdir(tmp_path)
  assert described("data") == before
  (tmp_path / "data").rename(tmp_path / "moved")
  assert described("moved") == before
  (tmp_path / "moved" / "train.txt").write_text("another text")
  assert described("moved") != before


@pytest.mark.parametrize("fingerprint", [True, False])
def test_the_version_of_a_source_is_covered(fingerprint):
  def described(version):
    source = types.SimpleNamespace(splits=(), version=version)
    if fingerprint:
      source.fingerprint = lambda: "same"
    return fingerprints.describe_source(source)

  assert described(1) != described(2)
