"""Weights & Biases (package `wandb`, extra `watch`)."""

from collections.abc import Mapping
import dataclasses
import pathlib
from typing import Literal
import uuid

import gin

from transformer_zoo.errors import UserError
from transformer_zoo.training.monitoring import writers


@gin.register
@dataclasses.dataclass(frozen=True)
class WeightsAndBiases:
  """Writes to a project of Weights & Biases; a resumed run goes on in its own.

  Steps that a resumed run makes again are there twice, as the service keeps
  everything that was logged.

  Attributes:
    project: The project in which the run appears.
    entity: The user or team that owns the project; None for the user who is
      logged in.
    group: The name of runs that are shown together, as the runs of a study.
    mode: 'offline' writes into the run's folder, for `wandb sync` to send.
  """

  project: str = "transformer_zoo"
  entity: str | None = None
  group: str | None = None
  mode: Literal["online", "offline"] = "online"

  def check(self) -> None:
    """Raises UserError where the package is not installed."""
    writers.package("wandb", "WeightsAndBiases")

  def open(self, folder: pathlib.Path) -> "_Session":
    """Opens the run, or goes on with it.

    Raises:
      UserError: the package is not installed, or the service refuses.
    """
    wandb = writers.package("wandb", "WeightsAndBiases")
    name = writers.identity(folder, "wandb", lambda: uuid.uuid4().hex[:16])
    try:
      run = wandb.init(
        project=self.project,
        entity=self.entity,
        group=self.group,
        mode=self.mode,
        id=name,
        resume="allow",
        name=folder.name,
        dir=str(folder),
        config=writers.settings(folder),
      )
    except Exception as error:  # Of several kinds, its own and the network's.
      raise UserError(
        f"Weights & Biases cannot be reached ({error}); log in with `wandb "
        "login`, or bind WeightsAndBiases.mode = 'offline'"
      ) from error
    # Ours is the step; its own must never go back, and a resumed run does.
    run.define_metric("step")
    run.define_metric("*", step_metric="step")
    return _Session(run)


class _Session:
  """Writes to one run; the package sends in a process of its own."""

  def __init__(self, run):
    self._run = run

  def scalars(self, step: int, values: Mapping[str, float]) -> None:
    self._run.log({"step": step, **values})

  def restart(self, step: int) -> None:
    del step  # The service keeps what was logged.

  def close(self) -> None:
    self._run.finish()
