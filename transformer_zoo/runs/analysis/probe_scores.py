"""Minimal pairs and facts from files, asked as the tasks of an evaluation.

Each pair, each item of a suite and each fact is an example with an outcome, and
each phenomenon, prediction or relation a metric of the task, the percentage of
right outcomes. So predictions, resamples and reports have them as they have any
task, and the score of a task is the mean over its phenomena or relations.
"""

from collections.abc import Sequence
import dataclasses
from typing import Any

import gin

from transformer_zoo import environment
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.probes import pairs
from transformer_zoo.evaluation.probes import relations
from transformer_zoo.evaluation.probes import suites
from transformer_zoo.runs.analysis import costs
from transformer_zoo.runs.analysis import probing
from transformer_zoo.runs.analysis import recall
from transformer_zoo.runs.loading.loaded_checkpoint import LoadedCheckpoint

# The metric that makes scores of outcomes.
SCORING = manifest.Scoring(
  postprocess=None,
  metrics=(
    {
      "function": "transformer_zoo.evaluation.metrics.classification:"
      "accuracy_by_kind",
      "kwargs": {},
    },
  ),
  score_metrics=(),
)
# Task -> a line for each example, as `evaluator.TaskResult.predictions`.
Lines = dict[str, list[dict[str, Any]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe:
  """Files that are asked as one task.

  Attributes:
    paths: The paths of the files; a relative one starts at the current folder
      or at the folder of the package.
    name: The name of the task; in a gin file the name of the scope by default.
  """

  paths: Sequence[str]
  name: str = dataclasses.field(default_factory=gin.current_scope_str)

  def __post_init__(self):
    kind = type(self).__name__
    if not self.name:
      raise UserError(
        f"{kind} has no name; bind it in a scope: @grammar/{kind}"
      )
    if isinstance(self.paths, str) or not self.paths:
      raise UserError(
        f"{self.name}/{kind}.paths is {self.paths!r}; it is a list of paths, "
        "one at least"
      )

  def content(self) -> list[Any]:
    """Returns what the files hold, by which a change of them is noticed.

    Raises:
      UserError: A file cannot be read.
    """
    raise NotImplementedError

  def ask(self, found: LoadedCheckpoint, batch_size: int) -> Lines:
    """Asks a checkpoint.

    Args:
      found: The checkpoint.
      batch_size: The number of rows of a batch.

    Returns:
      The outcomes by task; a task without examples is left out.

    Raises:
      UserError: A file cannot be read, or the model cannot fill a gap.
    """
    raise NotImplementedError


@gin.register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Pairs(Probe):
  """Minimal pairs of sentences, or suites of SyntaxGym (`.json`).

  A path may be a folder of such files and of no others.

  The metrics are `FILE/PHENOMENON`, and `SUITE/1` for the first prediction of a
  suite, as `zoo probe --pairs` prints them.
  """

  def content(self) -> list[Any]:
    """See the base class."""
    return [
      suites.read(file) if file.suffix == ".json" else pairs.read(file)
      for path in map(environment.here_or_shipped, self.paths)
      for file in (sorted(path.iterdir()) if path.is_dir() else [path])
    ]

  def ask(self, found: LoadedCheckpoint, batch_size: int) -> Lines:
    """See the base class."""
    lines, questions = [], []
    for each in self.content():
      if isinstance(each, suites.Suite):
        lines += _of_suite(each, found, batch_size)
      else:
        questions += each
    if questions:
      answers, _ = probing.answer(found, questions, batch_size, whole=True)
      for question, (right, wrong) in zip(
        questions, answers[..., 0].tolist(), strict=True
      ):
        gaps = question.right, question.wrong
        lines.append(
          _line(
            f"{question.language}/{question.kind}",
            0.5 if right == wrong else float(right > wrong),
            inputs=question.text,
            targets=question.right,
            prediction=gaps[right < wrong],
          )
        )
    return {self.name: lines}


@gin.register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts(Probe):
  """Facts of files as LAMA and mLAMA have them.

  The metrics are the relations, `FOLDER/FILE`. The task `NAME` has the
  precision at 1 of all tokens, `NAME_typed` that of the objects of a relation
  (`recall.recall`).

  Attributes:
    words: The path of a file of words, one on each line, among which an object
      is to be the first; None for all tokens.
  """

  words: str | None = None

  def content(self) -> list[Any]:
    """See the base class."""
    paths = map(environment.here_or_shipped, self.paths)
    return [
      self.words and recall.read_words(environment.here_or_shipped(self.words)),
      *(each for path in paths for each in relations.read(path)),
    ]

  def ask(self, found: LoadedCheckpoint, batch_size: int) -> Lines:
    """See the base class."""
    words, *facts = self.content()
    lines = {self.name: [], f"{self.name}_typed": []}
    for relation in facts:
      answered = recall.answer(found, relation, batch_size, words=words)
      for of_task, outcomes in zip(lines.values(), answered, strict=True):
        for number, is_right in sorted(outcomes.items()):
          text, target = relation.facts[number]
          of_task.append(
            _line(relation.name, float(is_right), inputs=text, targets=target)
          )
    return {task: of_task for task, of_task in lines.items() if of_task}


def ask(
  probes: Sequence[Probe], found: LoadedCheckpoint, batch_size: int
) -> tuple[Lines, dict[str, float]]:
  """Asks a checkpoint all probes.

  Args:
    probes: The probes.
    found: The checkpoint.
    batch_size: The number of rows of a batch.

  Returns:
    The outcomes by task, and the seconds and FLOPs that they took.

  Raises:
    UserError: As `Probe.ask`.
  """
  with costs.measured() as spent:
    asked = [probe.ask(found, batch_size) for probe in probes]
  return {task: lines for each in asked for task, lines in each.items()}, spent


def check(probes: Sequence[Probe]) -> None:
  """Raises UserError unless these are probes, each with a name of its own."""
  for probe in probes:
    if not isinstance(probe, Probe):
      raise UserError(
        f"evaluate.probes has {probe!r}; it is a list of @NAME/Pairs() and "
        "@NAME/Facts()"
      )
  names = [probe.name for probe in probes]
  for name in names:
    if names.count(name) > 1:
      raise UserError(
        f"evaluate.probes has two probes called {name!r}; bind them in scopes "
        "of different names"
      )


def _of_suite(suite, found, batch_size) -> list[dict[str, Any]]:
  items, _ = probing.surprisals(found, suite, batch_size)
  return [
    _line(
      f"{suite.name}/{number}",
      float(suites.holds(formula, item)),
      inputs=f"item {place}",
      targets=formula,
    )
    for number, formula in enumerate(suite.predictions, start=1)
    for place, item in enumerate(items, start=1)
  ]


def _line(kind: str, outcome: float, **shown: str) -> dict[str, Any]:
  return {**shown, "target_answer": kind, "answer": outcome}
