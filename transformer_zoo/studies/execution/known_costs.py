"""What runs cost, kept in a file so that no plan traces a program again."""

from collections.abc import Callable, Mapping
import dataclasses
import pathlib

from transformer_zoo import environment
from transformer_zoo.forecast.cost import Cost
from transformer_zoo.forecast.run_costs import RunCosts
from transformer_zoo.studies.execution import json_files

FILE = "costs.json"


class KnownCosts:
  """Costs by keys, as counted by this version of the code."""

  def __init__(self, file: pathlib.Path | None):
    """Reads the file.

    Args:
      file: is made when something is kept; None to keep it in memory alone.

    Raises:
      UserError: it is damaged.
    """
    self._file = file
    self._code = environment.describe_software()["code"]
    saved = json_files.read(file) if file and file.exists() else {}
    self._costs: dict[str, RunCosts] = {
      key: _from_json(costs) for key, costs in saved.get(self._code, {}).items()
    }

  def of(self, key: str, count: Callable[[], RunCosts]) -> RunCosts:
    """The costs under a key, counted where they are not known."""
    if key not in self._costs:
      self._costs[key] = count()
    return self._costs[key]

  def write(self) -> None:
    """Keeps all of them, and none of another version's."""
    if self._file is None:
      return
    self._file.parent.mkdir(parents=True, exist_ok=True)
    saved = {
      key: dataclasses.asdict(costs) for key, costs in self._costs.items()
    }
    json_files.replace(self._file, {self._code: saved})


def _from_json(saved: Mapping) -> RunCosts:
  executed = saved["executed"]
  return RunCosts(**{**saved, "executed": executed and Cost(**executed)})
