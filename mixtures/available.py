"""A mixture of the tasks whose data is on disk."""

from collections.abc import Mapping

import seqio

from transformer_zoo.errors import UserError


class AvailableMixture(seqio.Mixture):
  """Has the members whose data set is found when the mixture is used.

  Its average over tasks is one over what happens to be there: never report it
  under the name of the benchmark.
  """

  _registered = False

  def __init__(self, *args, **kwargs):
    super().__init__(*args, **kwargs)
    self._registered = True

  @property
  def tasks(self) -> list[seqio.Task]:
    """The members with data, by name; none where nothing is found."""
    members = super().tasks
    if not self._registered:  # what SeqIO checks has no data folder yet
      return members
    return [task for task in members if getattr(task.source, "exists", True)]

  @property
  def total_rate(self) -> float:
    return sum(self.get_rate(task) for task in self.tasks)

  @property
  def output_features(self) -> Mapping[str, seqio.Feature]:
    return super().tasks[0].output_features

  def get_dataset(self, *args, **kwargs):
    """As SeqIO's; raises UserError where no member has data."""
    if not self.tasks:
      raise UserError(
        f"Mixture {self.name!r} has no task whose data is on disk; name a "
        "folder that has tfds/ with --data_dir."
      )
    return super().get_dataset(*args, **kwargs)
