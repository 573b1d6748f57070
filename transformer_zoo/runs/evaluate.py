"""Evaluation of one or all checkpoints of a run."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import itertools
import json
import pathlib
import sys
import typing
from typing import Any

from flax import linen as nn
import gin
import jax
import rich.console

from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.data.features import converters
from transformer_zoo.data.features.converters import ENCODER_DECODER
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage import records
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.effects import Place
from transformer_zoo.effects import Speed
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import averages
from transformer_zoo.evaluation import submission
from transformer_zoo.evaluation.evaluator import Evaluator
from transformer_zoo.evaluation.evaluator import TaskResult
from transformer_zoo.evaluation.journal import Journal
from transformer_zoo.runs import evaluation_report
from transformer_zoo.runs import fingerprint
from transformer_zoo.runs import inputs
from transformer_zoo.runs import run_folder
from transformer_zoo.runs.answers import scoring
from transformer_zoo.runs.loading import ensembles
from transformer_zoo.runs.loading import restoration
from transformer_zoo.runs.loading.ensembles import Checkpoint
from transformer_zoo.training.checkpoints import reading
from transformer_zoo.training.monitoring.progress import Progress
from transformer_zoo.training.monitoring.recorder import METRICS_FILE

if typing.TYPE_CHECKING:
  from transformer_zoo.runs.analysis import edit_scores
  from transformer_zoo.runs.analysis import probe_scores
  from transformer_zoo.runs.loading.loaded_checkpoint import LoadedCheckpoint
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE
from transformer_zoo.training.sharding.partitioning import Partitioning

# Targets where a benchmark hides its labels: of classes, answers and choices,
# and of STS-B.
_HIDDEN = ("<unk>", "-1.0")
# Examples that are looked at together.
_SOME = 64


@gin.register
def evaluate(
  *,
  model: nn.Module,
  checkpoint_path: str | Sequence[str],
  mixture_or_task_name: str,
  task_feature_lengths: Mapping[str, int],
  batch_size: int,
  partitioning: Speed[Partitioning] = ONE_COPY_PER_DEVICE,
  prepared_dir: Place[str] = "runs/prepared",
  split: str = "validation",
  max_examples: int | None = None,
  output_dir: Place[str | None] = None,
  corruption: Callable | None = None,
  converter: converters.Converter = ENCODER_DECODER,
  decoding: DecodingOptions = GREEDY,
  scorer: Callable[..., Any] | None = None,
  all_checkpoints: bool = False,
  average: int | None = None,
  submission_dir: str | None = None,
  suffix: str = "",
  edits: "edit_scores.Edits | None" = None,
  probes: "Sequence[probe_scores.Probe]" = (),
) -> str:
  """Scores a checkpoint on a split of every task of a mixture.

  Killed and started again, it continues: what has been computed lies in
  `<task>.journal` files of the output folder, and counts as long as
  checkpoint, model, data and code are the same.

  Args:
    model: The architecture.
    checkpoint_path: The path of a run folder or of one of its steps, of a
      Hugging Face directory or of a T5X checkpoint; several paths answer as an
      ensemble.
    mixture_or_task_name: The name of the mixture or task to evaluate on.
    task_feature_lengths: The number of tokens of each feature.
    batch_size: The number of examples of a batch.
    partitioning: The mesh of devices and the rules of the layout.
    prepared_dir: The folder of prepared data, which is filled where it lacks
      the mixture.
    split: The name of the split; tasks without it are reported and skipped.
    max_examples: The largest number of examples of a split; None for all.
    output_dir: The folder of predictions and `result.json`, with a folder for
      each step, but none for a list of checkpoints; None for
      `evaluation/<mixture>/<split>` in the run folder.
    corruption: The corruption of unlabelled tasks; None for their own. For a
      run that was trained with another one, bind it here as well.
    converter: The layout of a batch (data/features/converters.py).
    decoding: The options of the search for outputs.
    scorer: The class that reads the head of an encoder (evaluation/scorers),
      made of the function that computes its logits; None for the form's.
    all_checkpoints: Whether every checkpoint of the run is scored and the best
      one chosen. `metrics.jsonl` of the output folder then has the scores by
      step, of which `zoo watch` draws curves.
    average: The number of last checkpoints of the run whose mean is scored,
      up to the step that the path names, if it does; None for the checkpoint
      that the path means.
    submission_dir: The folder for the files of the GLUE and SuperGLUE servers;
      if given, outputs are decoded and not scored.
    suffix: The end of the names of tasks in results and files, for a task that
      is scored in several ways.
    edits: Edits of facts that are made and scored in place of the mixture's
      examples (runs/analysis/edit_scores.py); None for no edits.
    probes: Minimal pairs and facts that are asked in place of the mixture's
      examples, each a task (runs/analysis/probe_scores.py).

  Returns:
    The scores as JSON text.

  Raises:
    UserError: The configuration or the data cannot be used as it is.
  """
  inputs.check_at_least(1, BATCH_SIZE=batch_size, max_examples=max_examples)
  if submission_dir and (all_checkpoints or max_examples is not None):
    raise UserError(
      "a submission is of one checkpoint and of every row: leave out "
      + ("--all_checkpoints" if all_checkpoints else "evaluate.max_examples")
    )
  if probes:
    from transformer_zoo.runs.analysis import probe_scores

    probe_scores.check(probes)
  ensembles.check_call(checkpoint_path, all_checkpoints, output_dir)
  is_one = isinstance(checkpoint_path, str)
  paths = [checkpoint_path] if is_one else list(checkpoint_path)
  if average is not None and (all_checkpoints or len(paths) != 1):
    raise UserError(
      f"--average {average} scores the mean of one run's last checkpoints: "
      "leave out --all_checkpoints, and name one run"
    )
  found = (
    [(step,) for step in reading.steps(checkpoint_path).values()]
    if all_checkpoints
    else [ensembles.locate(checkpoint_path)]
  )
  if average is not None:
    from transformer_zoo.checkpoints import averaging

    found = [tuple(averaging.last_steps(paths[0], average))]
  for step in itertools.chain.from_iterable(found):
    checkpoint_sources.check_base(step)

  def folder_of(name: str) -> pathlib.Path:
    if output_dir:
      return pathlib.Path(output_dir)
    return run_layout.run_of(found[0][0]) / "evaluation" / name / split

  if probes:  # They need no data.
    output = folder_of(mixture_or_task_name)
    asked = functools.partial(_asked, probes, suffix, batch_size, output)
    return _of_one(asked, found, split, output)
  mesh = partitioning.mesh()
  mixture = inputs.prepared(
    mixture_or_task_name,
    prepared_dir,
    form=converter.form,
    splits=(split,),
    required_splits=(split,),
    first=max_examples,
    report=_say,
  )
  inputs.check_mixture(model, mixture)
  if average is None:
    model = ensembles.model_of(model, found[0])
  tasks, skipped = choose_tasks(mixture, split, submitted=bool(submission_dir))
  if skipped:
    _say(f"without a split {split!r}, passed over: {', '.join(skipped)}")
  tasks = [dataclasses.replace(t, name=t.name + suffix) for t in tasks]
  output = folder_of(mixture.name)
  if edits is not None:
    name = mixture.name + suffix
    return _of_one(
      functools.partial(_edited, edits, name), found, split, output
    )
  with partitioning.activate(mesh):
    evaluator = scoring.make_evaluator(
      model,
      mesh,
      task_feature_lengths,
      batch_size,
      max_examples,
      corruption,
      decoding,
      converter,
      vocabulary=mixture.tasks[0].vocabulary,
      scorer=scorer,
    )
    for task in tasks:
      evaluator.open(task, split)
    evaluation = _Evaluation(
      model=model,
      evaluator=evaluator,
      restore=functools.partial(
        restoration.restore,
        model,
        partitioning,
        mesh,
        evaluator.batch_size,
        vocabularies=[task.vocabulary for task in tasks],
        class_names=mixture.class_names,
      ),
      tasks=tasks,
      split=split,
      submission_dir=submission_dir,
    )
    results, damaged = {}, {}
    if all_checkpoints:
      damaged |= reading.unusable(checkpoint_path)
    for checkpoint in found:
      name = checkpoint[-1].name
      if average is not None:
        name = f"{name}_average_{average}"
      folder = output / name if is_one else output
      try:
        results[name] = evaluation.run(checkpoint, folder, skipped)
      except reading.DamagedCheckpointError as error:
        if not all_checkpoints:
          raise
        damaged[name] = str(error)
  for reason in damaged.values():
    _say(f"passed over: {reason}")
  if not all_checkpoints:
    return json.dumps(results[name], indent=2)
  scores = {int(k): v["scores"] for k, v in results.items()}
  chosen = averages.choose(scores)
  _say("\n".join(evaluation_report.of_steps(scores)))
  _say("\n".join(evaluation_report.of_choice(chosen)))
  content = {
    "split": split,
    "checkpoints": results,
    "damaged": damaged,
    "best": chosen,
  }
  text = json.dumps(content, indent=2)
  if jax.process_index() == 0 and results:
    run_layout.replace(output / run_layout.RESULT, text + "\n")
    run_layout.replace(
      output / METRICS_FILE, evaluation_report.as_metrics(scores, split)
    )
  return text


def _of_one(
  score: Callable[["LoadedCheckpoint"], dict[str, Any]],
  found: Sequence[Checkpoint],
  split: str,
  output: pathlib.Path,
) -> str:
  """Scores what is asked of one checkpoint; writes and returns the result."""
  if len(found) != 1 or len(found[0]) != 1:
    raise UserError(
      "facts are edited, and probes asked, in one checkpoint at a time; name "
      "one and leave out --all_checkpoints and --average"
    )
  from transformer_zoo.runs.loading import loaded_checkpoint

  (checkpoint,) = found[0]
  run_layout.make_output(output)
  made = score(loaded_checkpoint.open_checkpoint(str(checkpoint)))
  result = {"checkpoint": str(checkpoint), "split": split, **made}
  text = json.dumps(result, indent=2)
  if jax.process_index() == 0:
    run_layout.replace(output / run_layout.RESULT, text + "\n")
  return text


def _edited(
  edits: "edit_scores.Edits", name: str, found: "LoadedCheckpoint"
) -> dict[str, Any]:
  made = edits.scores(found)
  return {
    "scores": {f"{name}_{at}": scores for at, scores in made["scores"].items()},
    "average": None,
    "cost": made["cost"],
  }


def _asked(
  probes: "Sequence[probe_scores.Probe]",
  suffix: str,
  batch_size: int,
  output: pathlib.Path,
  found: "LoadedCheckpoint",
) -> dict[str, Any]:
  """Writes the outcomes of probes as predictions, and returns their scores."""
  from transformer_zoo.evaluation.metrics import classification
  from transformer_zoo.runs.analysis import probe_scores

  asked, spent = probe_scores.ask(probes, found, batch_size)
  scores = {}
  for task, lines in asked.items():
    run_folder.write_predictions(
      output / f"{task}{suffix}.jsonl", lines, probe_scores.SCORING
    )
    scores[task + suffix] = classification.accuracy_by_kind(
      [line["target_answer"] for line in lines],
      [line["answer"] for line in lines],
    )
  return {
    "scores": scores,
    "average": averages.average(scores),
    "num_examples": {task + suffix: len(of) for task, of in asked.items()},
    "cost": spent,
  }


def choose_tasks(
  mixture: manifest.PreparedMixture, split: str, *, submitted: bool
) -> tuple[list[manifest.PreparedTask], list[str]]:
  """Chooses the tasks of a mixture that are evaluated.

  Args:
    mixture: The prepared mixture.
    split: The name of the split.
    submitted: Whether files for the server of a benchmark are written.

  Returns:
    The tasks that have the split, and the names of those that do not.

  Raises:
    UserError: No task has the split, no task belongs to a benchmark, or the
      labels to score are hidden.
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
  """Raises UserError if all targets of a task are hidden."""
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


@dataclasses.dataclass(frozen=True)
class _Evaluation:
  """An evaluation of checkpoints: all that is the same for each of them."""

  model: nn.Module
  evaluator: Evaluator
  restore: Any
  tasks: list[manifest.PreparedTask]
  split: str
  submission_dir: str | None

  def run(
    self, checkpoint: Checkpoint, output: pathlib.Path, skipped: list[str]
  ) -> dict[str, Any]:
    """Evaluates a checkpoint; writes and returns its result."""
    run_layout.make_output(output)
    params = None
    results = {}
    for task in self.tasks:
      with self._journal(task, checkpoint, output) as journal:
        data = self.evaluator.open(task, self.split)
        known = sum(map(len, journal.batches))
        if known < data.num_examples and params is None:
          params = self.restore(*map(str, checkpoint))
        if known:
          _say(
            f"{task.name}: {known} of {data.num_examples} examples are in "
            f"{output} from before; remove it to make them anew"
          )
        with Progress(
          first_step=known,
          last_step=data.num_examples,
          name=task.name,
          unit="example",
          console=rich.console.Console(stderr=True, highlight=False),
        ) as display:
          results[task.name] = self.evaluator(
            params,
            task,
            self.split,
            journal=journal,
            report=display.update,
            measured=not self.submission_dir,
          )
      found = results[task.name]
      if jax.process_index() == 0 and found.predictions:
        path = output / f"{task.name}.jsonl"
        run_folder.write_predictions(path, found.predictions, found.scoring)
    result = evaluation_report.as_json(
      ensembles.shown(checkpoint), self.split, results, skipped
    )
    if jax.process_index() == 0:
      if self.submission_dir:
        result["submission"] = self._submit(results)
      text = json.dumps(result, indent=2) + "\n"
      run_layout.replace(output / run_layout.RESULT, text)
      _say("\n".join(evaluation_report.of_checkpoint(result, self.evaluator)))
    return result

  def _journal(self, task, checkpoint, output) -> Journal:
    parts = fingerprint.of_evaluation(
      self.model,
      self.evaluator,
      task,
      self.split,
      checkpoint,
      measured=not self.submission_dir,
    )
    journal = Journal(
      output / f"{task.name}.journal",
      parts,
      writes=jax.process_index() == 0,
      report=_say,
    )
    if not partitioning_lib.is_same_everywhere(len(journal.batches)):
      raise UserError(
        f"the processes do not see the same {journal.path.name!r} of an "
        f"interrupted evaluation: give a folder that all of them share as "
        f"--output_dir, which is {str(output)!r} here"
      )
    return journal

  def _submit(self, results: Mapping[str, TaskResult]) -> dict[str, Any]:
    files = {}
    for name, result in results.items():
      written = submission.write(
        self.submission_dir, name, result.examples, result.answers
      )
      files[written.path.name] = {
        "rows": written.rows,
        "invalid": written.invalid,
      }
    return {
      "folder": str(self.submission_dir),
      "files": files,
      "invalid_rule": submission.INVALID_RULE,
      "missing": submission.missing(list(files)),
    }


def _say(text: str) -> None:
  """Prints to stderr: standard output is for the JSON."""
  if jax.process_index() == 0:
    print(text, file=sys.stderr, flush=True)
