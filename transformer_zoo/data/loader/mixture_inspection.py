"""The contents of a mixture: counts, rates, epochs, missing tasks."""

from collections.abc import Iterable, Mapping
from typing import Any

from transformer_zoo.data import mixing
from transformer_zoo.data.features import converters
from transformer_zoo.data.loader import loader
from transformer_zoo.data.storage import manifest
from transformer_zoo.errors import UserError

FEATURES = ("inputs", "targets")
# Rows whose examples are counted: the average of so many is within a percent.
_MOST_ROWS = 20_000


def check_readable(name: str, members: Iterable[Any]) -> None:
  """Raises UserError that names every member whose files are not there.

  Args:
    name: The name of the mixture.
    members: The `seqio.Task`s of the mixture.
  """
  problems = {}
  for task in members:
    try:
      for split in task.splits:
        task.source.list_shards(split)
    except (UserError, OSError) as error:
      problems[task.name] = error
  if problems:
    first, reason = next(iter(problems.items()))
    raise UserError(
      f"Mixture {name!r} has members that cannot be read: "
      f"{', '.join(problems)}. {first}: {reason}"
    )


def inspect_mixture(
  mixture: manifest.PreparedMixture,
  *,
  declared: Mapping[str, Iterable[str]] | None = None,
  steps: int | None = None,
  batch_size: int = 128,
  lengths: Mapping[str, int] | None = None,
) -> dict[str, Any]:
  """Says how a run would draw from the mixture.

  Args:
    mixture: prepared, with the rates of the run.
    declared: task -> the splits that its data set can have.
    steps: The number of steps of the run; None to leave out epochs.
    batch_size: rows of a batch.
    lengths: The lengths of the features, for packed rows; None for rows of one
      example (`train(packing=False)`).

  Returns:
    JSON: `examples_per_row` (None without steps), `rows`, and for each of
    `tasks` what its rate counts (training examples, of unlabelled text
    documents), `epoch` (the examples of an epoch; None where they depend on
    lengths that are not given), rate, share (normalised rate), epochs in so
    many rows, splits, and what is missing.

  Raises:
    UserError: steps or batch size are not positive, a task with a rate above 0
      has no training examples, or lengths do not fit the tasks.
  """
  if (steps is not None and steps < 1) or batch_size < 1:
    raise UserError(
      f"--steps {steps} and --batch_size {batch_size} must be 1 or more."
    )
  rows = None if steps is None else steps * batch_size
  per_row, sizes = _count(mixture, rows, lengths)
  shares = mixing.normalized(mixture.rates)
  tasks = []
  for task, rate, share in zip(
    mixture.tasks, mixture.rates, shares, strict=True
  ):
    count = mixing.train_count(task)
    if rate and not count:
      raise UserError(
        f"Task {task.name!r} of mixture {mixture.name!r} has the rate {rate:g} "
        "but no training split on disk: leave it out, or give it the rate 0."
      )
    expected = declared.get(task.name, ()) if declared else ()
    epoch = sizes.get(task.name)
    tasks.append(
      {
        "name": task.name,
        "counted": "documents" if task.kind == "tokens" else "examples",
        "examples": count,
        "epoch": epoch,
        "rate": rate,
        "share": share,
        "epochs": rows * per_row * share / epoch if rows and epoch else None,
        "splits": {k: s.num_examples for k, s in task.splits.items()},
        "missing_splits": [s for s in expected if s not in task.splits],
        "missing_features": [
          f for f in FEATURES if f not in task.features and task.form is None
        ],
        "skipped_rows": sum(s.num_skipped for s in task.splits.values()),
      }
    )
  return {
    "mixture": mixture.name,
    "steps": steps,
    "batch_size": batch_size,
    "rows": rows,
    "lengths": dict(lengths or {}),
    "examples_per_row": per_row,
    "tasks": tasks,
  }


def _count(
  mixture: manifest.PreparedMixture,
  rows: int | None,
  lengths: Mapping[str, int] | None,
) -> tuple[float | None, dict[str, int]]:
  """Returns the examples of a row, and of an epoch by task, if known."""
  if not lengths:
    sizes = {
      task.name: mixing.train_count(task)
      for task in mixture.tasks
      if task.kind != "tokens"
    }
    return None if rows is None else 1.0, sizes
  counted = min(rows or 1, _MOST_ROWS)
  form = mixture.tasks[0].form
  batches = loader.open_batches(
    mixture,
    split="train",
    lengths=lengths,
    batch_size=counted,
    seed=0,
    converter=converters.Encoder(form["form"])
    if form
    else converters.ENCODER_DECODER,
  )
  names = [task.name for task in batches.tasks]
  sizes = dict(zip(names, batches.num_examples.tolist(), strict=True))
  if rows is None:
    return None, sizes
  return float(batches.examples_before(1).sum() / counted), sizes


def as_text(found: dict[str, Any]) -> str:
  """Returns what `inspect_mixture` found as a table, ending in a newline."""
  width = max(len(task["name"]) for task in found["tasks"])
  counted = " or ".join(sorted({t["counted"] for t in found["tasks"]}))
  column = max(len(counted), 11)
  head = f"{'task':{width}} {counted:>{column}} {'rate':>11} {'share':>7}"
  lines = [head + ("   epochs" if found["rows"] else "") + "  splits"]
  for task in found["tasks"]:
    line = f"{task['name']:{width}} {task['examples']:>{column},}"
    line += f" {task['rate']:>11,.6g} {task['share']:>7.2%}"
    if found["rows"]:
      epochs = task["epochs"]
      line += f" {epochs:>8.2f}" if epochs is not None else f" {'-':>8}"
    line += "  " + ", ".join(task["splits"])
    for what in ("splits", "features"):
      if task[f"missing_{what}"]:
        line += f"; missing {what}: " + ", ".join(task[f"missing_{what}"])
    if task["skipped_rows"]:
      line += f"; {task['skipped_rows']:,} bad rows skipped"
    lines.append(line)
  lines += [
    _documents(t) for t in found["tasks"] if t["counted"] == "documents"
  ]
  if found["rows"]:
    lines.append(_assumption(found))
  return "\n".join(lines) + "\n"


def _documents(task: dict[str, Any]) -> str:
  """Returns what is known of the examples of unlabelled text."""
  line = f"{task['name']}: {task['examples']:,} documents, "
  if task["epoch"] is None:
    return line + "out of which the lengths of a run (--length) make examples"
  return line + f"{task['epoch']:,} examples of these lengths"


def _assumption(found: dict[str, Any]) -> str:
  """Returns what the epochs rest on."""
  line = f"epochs: {found['steps']:,} steps of {found['batch_size']:,} rows, "
  if not found["lengths"]:
    return line + "one example a row (not packed; --length packs)"
  lengths = ", ".join(f"{k} {v}" for k, v in found["lengths"].items())
  counted = min(found["rows"], _MOST_ROWS)
  return line + (
    f"packed to {lengths} with {found['examples_per_row']:.2f} examples a row "
    f"(counted over the first {counted:,} rows of seed 0)"
  )
