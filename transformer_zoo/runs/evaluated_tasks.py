"""Which tasks of a mixture an evaluation or a submission is of."""

from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage import records
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import submission

# Targets where a benchmark hides its labels: of classes, answers and choices,
# and of STS-B.
_HIDDEN = ("<unk>", "-1.0")
# Examples that are looked at together.
_SOME = 64


def choose(
  mixture: manifest.PreparedMixture, split: str, *, submitted: bool
) -> tuple[list[manifest.PreparedTask], list[str]]:
  """The tasks that have the split, and the names of those that do not.

  Raises:
    UserError: no task has it, none of them belongs to a benchmark, or what is
      to be scored has hidden labels.
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
  if not submitted:
    _check_labels(having, split)
  return having, [task.name for task in tasks if split not in task.splits]


def _check_labels(tasks: list[manifest.PreparedTask], split: str) -> None:
  """Raises UserError where all targets of a task are hidden."""
  hidden = [task.name for task in tasks if _is_hidden(task, split)]
  if not hidden:
    return
  if any(map(submission.form_of, hidden)):
    advice = "--submission DIR writes the answers for the benchmark's server"
  else:
    advice = "choose a split that has labels"
  raise UserError(
    f"the labels of split {split!r} are hidden in {', '.join(hidden)}, so "
    f"nothing can be scored; {advice}"
  )


def _is_hidden(task: manifest.PreparedTask, split: str) -> bool:
  if task.kind != "examples":
    return False
  examples = records.ExampleRecords(task, split)
  for start in range(0, len(examples), _SOME):
    end = min(start + _SOME, len(examples))
    for _, text in examples.read(range(start, end)):
      if text.get("targets_pretokenized") not in _HIDDEN:
        return False
  return len(examples) > 0
