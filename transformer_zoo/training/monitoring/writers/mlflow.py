"""MLflow (package `mlflow` or `mlflow-skinny`, extra `watch`)."""

from collections.abc import Mapping
import dataclasses
import pathlib
import time

import gin

from transformer_zoo.errors import UserError
from transformer_zoo.training.monitoring import writers

# MLflow takes so many parameters and metrics at a time.
_PARAMETERS = 100
_METRICS = 1000


@gin.register
@dataclasses.dataclass(frozen=True)
class MlFlow:
  """Writes to an MLflow server or database; a resumed run goes on in its own.

  Attributes:
    experiment: The experiment in which the run appears; it is made when
      missing.
    tracking_uri: The address of the server, or a database such as
      `sqlite:////data/mlflow.db`; None for the value of MLFLOW_TRACKING_URI.
  """

  experiment: str = "transformer_zoo"
  tracking_uri: str | None = None

  def check(self) -> None:
    """Raises UserError where the package is not installed."""
    writers.package("mlflow", "MlFlow")

  def open(self, folder: pathlib.Path) -> "_Session":
    """Opens the run, or goes on with it.

    Raises:
      UserError: the package is not installed, or the server refuses.
    """
    mlflow = writers.package("mlflow", "MlFlow")
    try:
      client = mlflow.MlflowClient(tracking_uri=self.tracking_uri)
      name = writers.identity(
        folder, "mlflow", lambda: self._create(client, folder)
      )
      client.update_run(name, status="RUNNING")
    except Exception as error:  # Of several kinds, its own and the network's.
      raise UserError(
        f"MLflow cannot be reached ({error}); bind MlFlow.tracking_uri to a "
        "server, or to a database as 'sqlite:////data/mlflow.db'"
      ) from error
    return _Session(mlflow, client, name)

  def _create(self, client, folder: pathlib.Path) -> str:
    """Makes a run with its parameters; returns its name."""
    found = client.get_experiment_by_name(self.experiment)
    experiment = (
      found.experiment_id
      if found
      else client.create_experiment(self.experiment)
    )
    name = client.create_run(experiment, run_name=folder.name).info.run_id
    for parameter, text in list(writers.settings(folder).items())[:_PARAMETERS]:
      client.log_param(name, parameter, text)
    return name


class _Session:
  """Writes to one run, in threads of the package."""

  def __init__(self, mlflow, client, name: str):
    self._mlflow = mlflow
    self._client = client
    self._name = name
    self._last = None

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    now = int(time.time() * 1000)
    metrics = [
      self._mlflow.entities.Metric(name, value, now, step)
      for name, value in values.items()
    ]
    for start in range(0, len(metrics), _METRICS):
      self._last = self._client.log_batch(
        self._name, metrics[start : start + _METRICS], synchronous=False
      )

  def restart(self, step: int) -> None:
    del step  # It keeps both, and shows the later one.

  def close(self) -> None:
    if self._last is not None:
      self._last.wait()  # They are sent in order.
    self._client.set_terminated(self._name)
