"""Measured differences are printed at the end: they are the result."""

import pytest

_MEASURED = "measured"


@pytest.fixture
def report(request):
  """Returns a function that notes a measured difference."""

  def note(what: str, difference: float):
    line = f"{difference:.1e}  {what}  {request.node.name}"
    # These come back from the workers of pytest-xdist.
    request.node.user_properties.append((_MEASURED, line))

  return note


@pytest.fixture(scope="session")
def t5_package(shared_data):
  """Returns a function from a request to the lines of the t5 package."""
  from tests.oracles.t5 import row_by_row

  if not row_by_row.T5_PACKAGE.is_dir():
    pytest.skip(f"no {row_by_row.T5_PACKAGE}: `make test-oracles` installs it")
  with row_by_row.running(shared_data) as lines:
    yield lines


def pytest_terminal_summary(terminalreporter):
  terminalreporter.section("largest relative differences")
  for outcome in ("passed", "failed"):
    for test in terminalreporter.getreports(outcome):
      for name, line in test.user_properties:
        if name == _MEASURED:
          terminalreporter.line(line)
