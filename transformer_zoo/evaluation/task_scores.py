"""A task's own scoring: decoded texts into answers, answers into metrics.

The functions are those that the task's manifest refers to.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import inspect
from typing import Any

from transformer_zoo.data.storage import function_references
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

# The arguments of metrics that count parts of each example's targets.
COUNTS = ("target_tokens", "target_words")
_BLEU = "transformer_zoo.evaluation.metrics.text_overlap:bleu"


@dataclasses.dataclass(frozen=True)
class Answers:
  """The targets and predictions that a task's metrics compare.

  Attributes:
    targets: one per example.
    predictions: one per example; None where nothing was decoded.
    invalid: The number of predictions that are no possible answer; None if
      every text is a possible answer.
  """

  targets: list[Any]
  predictions: list[Any] | None
  invalid: int | None


def check(scoring: manifest.Scoring) -> None:
  """Imports every function that a task is scored with.

  Raises:
    UserError: one is not there.
  """
  post = [scoring.postprocess] if scoring.postprocess else []
  for reference in (*post, *scoring.metrics, *scoring.score_metrics):
    function_references.resolve(reference)


def counts_of(metric: Callable) -> set[str]:
  """Returns the names of `COUNTS` that a metric has as arguments."""
  return set(COUNTS).intersection(inspect.signature(metric).parameters)


def counts_asked(scoring: manifest.Scoring) -> set[str]:
  """Returns the names of `COUNTS` that a task's score metrics have."""
  asked = map(function_references.resolve, scoring.score_metrics)
  return set().union(*map(counts_of, asked))


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
  """Returns the `COUNTS` of rows, those that the rows have."""
  names = [name for name in COUNTS if all(name in row for row in rows)]
  return {name: [row[name] for row in rows] for name in names}


def post_process(
  scoring: manifest.Scoring,
  examples: Sequence[Mapping[str, Any]],
  texts: Sequence[str] | None,
) -> Answers:
  """Applies a task's post-processing to targets and decoded texts.

  Args:
    scoring: refers to the function.
    examples: the texts of each example, `targets_pretokenized` among them, and
      its ids as `inputs` and `targets`; a function of a user's gets them as
      SeqIO gives them.
    texts: the decoded prediction for each; None where nothing was decoded.

  Raises:
    ValueError: there are not as many texts as examples.
  """
  reference = scoring.postprocess
  answer = _as_it_is
  if reference:
    answer = function_references.resolve_post_processing(reference)
  targets = [
    answer(example["targets_pretokenized"], example=example, is_target=True)
    for example in examples
  ]
  if texts is None:
    return Answers(targets, None, None)
  predictions = [
    answer(text, example=example, is_target=False)
    for text, example in zip(texts, examples, strict=True)
  ]
  # Loads post-processors, which most tasks of unlabelled text do without.
  from transformer_zoo.evaluation.answers import invalid_answers

  invalid = invalid_answers.count_invalid(reference, predictions, texts)
  return Answers(targets, predictions, invalid)


def measure(
  scoring: manifest.Scoring,
  found: Answers,
  log_likelihoods: Sequence[float],
  task: str,
  counts: Mapping[str, Sequence[int]] | None = None,
) -> dict[str, float]:
  """Returns all metrics of a task by name.

  Args:
    scoring: refers to the functions.
    found: The result of `post_process`.
    log_likelihoods: The log-likelihood of each example's targets, in nats, for
      score metrics.
    task: The name of the task, for messages.
    counts: The numbers of parts of each example's targets under names of
      `COUNTS`, for metrics with arguments of these names; unknown if left out.

  Raises:
    UserError: two metrics give a value of the same name, or a value is no
      number.
  """
  scores = {}
  for references, compared in (
    (scoring.metrics, found.predictions),
    (scoring.score_metrics, list(log_likelihoods)),
  ):
    for reference in references:
      metric = function_references.resolve(reference)
      asked = counts_of(metric) & (counts or {}).keys()
      counted = {name: counts[name] for name in asked}
      values = metric(found.targets, compared, **counted)
      values = {
        name: _number(value, name, reference, task)
        for name, value in values.items()
      }
      if same := scores.keys() & values.keys():
        raise UserError(
          f"Two metrics of task {task!r} are both called {min(same)!r}; wrap "
          "one in a function that names its value otherwise."
        )
      scores |= values
  return scores


def names(
  scoring: manifest.Scoring, examples: Sequence[Mapping[str, Any]], task: str
) -> set[str] | None:
  """Names of what a task is scored by, where targets are the predictions.

  Args:
    scoring: refers to the functions.
    examples: some, as `post_process` takes them.
    task: The name of the task, for messages.

  Returns:
    The names; None where some of the examples are too few for a metric.
  """
  texts = [example["targets_pretokenized"] for example in examples]
  try:
    found = post_process(scoring, examples, texts if scoring.metrics else None)
    ones = dict.fromkeys(COUNTS, [1] * len(texts))
    scored = set(measure(scoring, found, [0.0] * len(texts), task, ones))
  except UserError:
    raise
  except Exception:  # A function of a user's may raise anything.
    return None
  return scored | ({"invalid"} if found.invalid is not None else set())


def signature(scoring: manifest.Scoring, found: Answers) -> str | None:
  """Returns BLEU's signature, None where it is not among the metrics."""
  if _BLEU not in [reference["function"] for reference in scoring.metrics]:
    return None
  from transformer_zoo.evaluation.metrics import text_overlap

  references = {
    1 if isinstance(target, str) else len(target) for target in found.targets
  }
  return text_overlap.bleu_signature(*sorted(references or {1}))


def _number(
  value: Any, name: str, reference: Mapping[str, Any], task: str
) -> float:
  # A `seqio.metrics.Scalar` has the number as its value.
  try:
    return float(getattr(value, "value", value))
  except (TypeError, ValueError):
    raise UserError(
      f"The metric {reference['function']} of task {task!r} gives "
      f"{name!r} as {type(value).__name__}, which is no number; give a number "
      "or seqio.metrics.Scalar, or leave it out."
    ) from None


def _as_it_is(text: str, **_) -> str:
  return text
