"""Whether the runs of a study can score the columns of its suite."""

from collections.abc import Collection, Iterable

from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError
from transformer_zoo.studies.design.suite import Column
from transformer_zoo.studies.design.suite import Suite


def check(suite: Suite, columns: Iterable[Column], runs: Collection) -> None:
  """Checks that the tasks of columns are read by the runs of their groups.

  What is not known, as data is not prepared yet, is let pass.

  Args:
    suite: of the columns.
    columns: those that rows of a study can have scores in.
    runs: of the study (`plan.Run`), for all groups where `group` is "".

  Raises:
    UserError: a column wants a task that no scored run of its group reads.
  """
  read = {(run.mixture, run.prepared_dir) for run in runs if run.scored}
  tasks = {data: _tasks(*data) for data in read}
  for column in columns:
    known = set()
    for run in runs:
      if run.scored and run.group in ("", column.of_group):
        known |= tasks[run.mixture, run.prepared_dir]
    # Runs may give their tasks' names a suffix (`evaluate.suffix`), as "_2x".
    names = tuple(f"{name}_" for name in known)
    wrong = [task for task in column.tasks if not f"{task}_".startswith(names)]
    if wrong and "" not in known:
      raise UserError(
        f"column {column.name!r} of suite {suite.name!r} wants the task "
        f"{wrong[0]!r}, which no run for group {column.of_group!r} reads"
        f"{nearest(wrong[0], known)}"
      )


def _tasks(mixture: str, prepared_dir: str) -> set[str]:
  """Names of the tasks of a mixture, {""} where it is not prepared."""
  try:
    found = manifest.load(mixture, prepared_dir)
  except UserError:
    return {""}
  return {task.name for task in found.tasks}
