"""A change shows in what a function reaches, whatever calls it; no other."""

import functools
import importlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

from transformer_zoo.data.prepare import reached_code

ROOT = pathlib.Path(__file__).parents[3]
STEPS = """
import functools
import re

import {package}.helpers
from {package} import helpers as other
from {package}.helpers import imported

PREFIX = "cola"
TABLE = {{"a": ("first", 1), "b": lambda text: text + "!"}}
PATTERN = re.compile("a+")


def used(text):
  return PREFIX + deeper(text)


def deeper(text):
  return text.strip()


def unused(text):
  return text.upper()


class Base:
  MARK = "*"

  def mark(self, text):
    return self.MARK + text


class Writer(Base):

  def __init__(self, count):
    self.count = count
    self._kept = object()

  def write(self, text):
    return deeper(text) * self.count


def decorated(function):
  @functools.wraps(function)
  def wrapper(text):
    return function(text)
  return wrapper


@decorated
def by_name(text):
  return used(text)


def by_module(text):
  return other.attribute(text) + {package}.helpers.dotted(text)


def by_import(text):
  return imported(text)


def by_late_import(text):
  from {package} import late
  return late.found(text)


def by_inner_function(text):
  def inner():
    return deeper(text)
  return [inner() for _ in range(2)]


def by_class(text):
  return Writer(2).write(text)


def by_table(text):
  return TABLE["b"](text)


def by_pattern(text):
  return PATTERN.sub("", text)


by_partial = functools.partial(used)
by_closure = (lambda function: lambda text: function(text))(used)
writer = Writer(3)
"""
HELPERS = """
def attribute(text):
  return "attribute" + _private(text)


def _private(text):
  return "private"


def dotted(text):
  return "dotted"


def imported(text):
  return "imported"
"""
LATE = """
def found(text):
  return "late"
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
  """Returns a function that writes the package anew and imports its steps."""
  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.setattr(sys, "dont_write_bytecode", True)
  name = "reached_by_test"
  folder = tmp_path / name
  folder.mkdir()

  def write(before="", after=""):
    for file, text in (
      ("steps", STEPS.format(package=name)),
      ("helpers", HELPERS),
      ("late", LATE),
      ("__init__", ""),
    ):
      (folder / f"{file}.py").write_text(text.replace(before, after))
    for module in [m for m in sys.modules if m.partition(".")[0] == name]:
      del sys.modules[module]
    importlib.invalidate_caches()
    reached_code._is_own.cache_clear()
    return importlib.import_module(f"{name}.steps")

  yield write
  for module in [m for m in sys.modules if m.partition(".")[0] == name]:
    del sys.modules[module]


def reached(steps, step):
  return reached_code.reached_code(getattr(steps, step))


@pytest.mark.parametrize(
  "step, before, after",
  [
    ("by_name", "text.strip()", "text.lstrip()"),
    ("by_name", 'PREFIX = "cola"', 'PREFIX = "sst2"'),
    ("by_name", "return function(text)", "return function(text) + ''"),
    ("by_module", 'return "attribute"', 'return "other"'),
    ("by_module", 'return "private"', 'return "other"'),
    ("by_module", 'return "dotted"', 'return "other"'),
    ("by_import", 'return "imported"', 'return "other"'),
    ("by_late_import", 'return "late"', 'return "later"'),
    ("by_inner_function", "text.strip()", "text.lstrip()"),
    ("by_class", "text.strip()", "text.lstrip()"),
    ("by_class", "* self.count", "* 2"),
    ("by_class", 'MARK = "*"', 'MARK = "#"'),
    ("by_table", 'text + "!"', 'text + "?"'),
    ("by_table", '("first", 1)', '("first", 2)'),
    ("by_pattern", '"a+"', '"b+"'),
    ("by_partial", "text.strip()", "text.lstrip()"),
    ("by_closure", "text.strip()", "text.lstrip()"),
    ("writer", "text.strip()", "text.lstrip()"),
    ("writer", "Writer(3)", "Writer(4)"),
  ],
)
def test_a_change_shows(package, step, before, after):
  old = reached(package(), step)
  assert reached(package(), step) == old
  assert reached(package(before, after), step) != old


@pytest.mark.parametrize(
  "step, before, after",
  [
    ("by_name", "text.upper()", "text.lower()"),
    ("by_name", 'return "imported"', 'return "other"'),
    ("by_import", "text.strip()", "text.lstrip()"),
    ("by_module", 'return "imported"', 'return "other"'),
    ("by_table", "text.strip()", "text.lstrip()"),
  ],
)
def test_a_change_elsewhere_does_not(package, step, before, after):
  old = reached(package(), step)
  assert reached(package(before, after), step) == old


def test_installed_packages_end_the_search():
  def step(text):
    return os.path.join(json.dumps(text), pytest.__name__)

  (found,) = reached_code.reached_code(step)
  assert found[0].endswith("step")


def test_functions_that_call_each_other():
  names = [name for name, _ in reached_code.reached_code(_ping)]
  assert names == ["_ping", "_pong"]


def _ping(number):
  return number and _pong(number - 1)


def _pong(number):
  return number and _ping(number - 1)


def test_the_same_in_every_process(package, tmp_path):
  steps = package()
  script = (
    "from transformer_zoo.data import reached_code\n"
    "from reached_by_test import steps\n"
    "values = [v for k, v in sorted(vars(steps).items()) if k[0] != '_']\n"
    "print(reached_code.reached_code(*values))\n"
  )
  printed = [
    subprocess.run(
      [sys.executable, "-c", script],
      env=os.environ
      | {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
      capture_output=True,
      text=True,
      check=True,
    ).stdout
    for seed in ("1", "2")  # the second process reads the first one's bytecode
  ]
  assert steps.__name__ in printed[0]
  assert printed[0] == printed[1]


def test_partial_arguments_are_reached():
  def given(text):
    return text

  def step(text, function):
    return function(text)

  bound = functools.partial(step, function=given)
  assert len(reached_code.reached_code(bound)) == 2
