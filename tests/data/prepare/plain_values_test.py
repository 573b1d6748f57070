"""A task with other values has another definition, in every process the same.

Each value is written into a module of a user's, which is imported anew.
"""

import functools
import importlib
import pathlib
import sys

import pytest

from transformer_zoo.data.prepare import definitions
from transformer_zoo.data.prepare import plain_values
from transformer_zoo.data.prepare import reached_code

pytest.importorskip("tensorflow")
NAME = "values_of_test"
STEPS = """
import datetime
import decimal
import enum
import functools
import pathlib

import numpy as np
import tensorflow as tf

WORDS = np.array(["nli", "b"])
OBJECTS = np.array(["nli", None], object)
CONSTANT = tf.constant("nli")
RAGGED = tf.ragged.constant([["nli"], []])
DAY = datetime.date(2024, 1, 1)


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


def by_array(dataset):
  return WORDS


def by_objects(dataset):
  return OBJECTS


def by_tensor(dataset):
  return CONSTANT


def by_ragged(dataset):
  return RAGGED


def by_day(dataset):
  return DAY


def step(dataset, value):
  return dataset


path = functools.partial(step, value=pathlib.PurePosixPath("nli.txt"))
style = functools.partial(step, value=Style.NLI)
array = functools.partial(step, value=np.array(["nli"]))
nested = functools.partial(step, value={"a": [np.float32(1.5)]})
number = functools.partial(step, value=decimal.Decimal("1.5"))
private = Private("nli")
deeper = Private({"a": ["nli", 1.5]})
inner = Private(Inner("nli"))
function = Private([step, lambda dataset: "nli"])
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
    importlib.invalidate_caches()
    reached_code._is_own.cache_clear()
    return importlib.import_module(NAME)

  yield write
  sys.modules.pop(NAME, None)


def described(step):
  return repr((definitions._describe(step), reached_code.reached_code(step)))


@pytest.mark.parametrize(
  "step, before, after",
  [
    ("by_array", '["nli", "b"]', '["other", "b"]'),
    ("by_array", '["nli", "b"]', '[["nli", "b"]]'),
    ("by_objects", '["nli", None]', '["other", None]'),
    ("by_tensor", 'constant("nli")', 'constant("other")'),
    ("by_ragged", '[["nli"], []]', '[["other"], []]'),
    ("by_day", "2024", "2025"),
    ("path", "nli.txt", "other.txt"),
    ("style", "Style.NLI", "Style.OTHER"),
    ("style", '"first"', '"third"'),
    ("array", 'np.array(["nli"]))\nnested', 'np.array(["other"]))\nnested'),
    ("nested", "np.float32(1.5)", "np.float32(2.5)"),
    ("number", 'Decimal("1.5")', 'Decimal("2.5")'),
    ("private", 'Private("nli")', 'Private("other")'),
    ("deeper", '["nli", 1.5]', '["nli", 2.5]'),
    ("inner", 'Inner("nli")', 'Inner("other")'),
    ("function", 'dataset: "nli"', 'dataset: "other"'),
    ("mapped", 'np.array(["nli"]))\n', 'np.array(["other"]))\n'),
  ],
)
def test_another_value_shows(load, step, before, after):
  assert STEPS.count(before)
  old = described(getattr(load(), step))
  assert described(getattr(load(), step)) == old
  assert described(getattr(load(before, after), step)) != old
  assert " at 0x" not in old


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


def test_what_a_step_keeps_while_it_works_is_no_other_definition():
  step = Step("nli: ")
  before = described(step)
  step(None)
  assert described(step) == before
  assert described(Step("nli: ")) == before
  assert described(Step("other: ")) != before


def test_what_has_no_text_is_left_out():
  assert plain_values.text_of_all([object()]) is None
  assert plain_values.text_of(pathlib) is None
  assert plain_values.text_of(len) is None


def test_what_is_of_seqio_is_left_out():
  seqio = pytest.importorskip("seqio")
  names = dict(plain_values.fields(seqio.ByteVocabulary(extra_ids=3)))
  assert not [name for name in names if name.startswith("_")]
