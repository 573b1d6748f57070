"""Which tasks of a mixture an evaluation or a submission is of."""

from transformer_zoo.data import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import submission


def choose(
  mixture: manifest.PreparedMixture, split: str, *, submitted: bool
) -> tuple[list[manifest.PreparedTask], list[str]]:
  """The tasks that have the split, and the names of those that do not.

  Raises:
    UserError: no task has it, or none of them belongs to a benchmark.
  """
  tasks = list(mixture.tasks)
  if submitted:
    tasks = [task for task in tasks if submission.form_of(task.name)]
    if not tasks:
      raise UserError(
        f"no task of {mixture.name!r} belongs to a submission; those that do "
        f"are {', '.join(submission.FORMATS)}"
      )
    for task in tasks:
      if task.scoring is None:
        raise UserError(
          f"task {task.name!r} has no post-processing that makes labels of "
          "texts, so it cannot be submitted; give it one and prepare it again"
        )
  having = [task for task in tasks if split in task.splits]
  if not having and len(tasks) == 1:
    tasks[0].split(split)
  if not having:
    there = sorted({name for task in tasks for name in task.splits})
    raise UserError(
      f"no task of mixture {mixture.name!r} has a split {split!r}; there are "
      f"{', '.join(there)}"
    )
  return having, [task.name for task in tasks if split not in task.splits]
