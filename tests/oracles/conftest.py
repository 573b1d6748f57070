"""Measured differences are printed at the end: they are the result."""

import pytest

_MEASURED = pytest.StashKey[list]()


def pytest_configure(config):
  config.stash[_MEASURED] = []


@pytest.fixture
def report(request):
  """Returns a function that notes a measured difference."""

  def note(what: str, difference: float):
    line = f"{difference:.1e}  {what}  {request.node.name}"
    request.config.stash[_MEASURED].append(line)

  return note


def pytest_terminal_summary(terminalreporter, config):
  terminalreporter.section("largest relative differences")
  for line in config.stash[_MEASURED]:
    terminalreporter.line(line)
