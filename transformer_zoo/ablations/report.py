"""The report of a study: one HTML file that needs nothing else."""

from collections.abc import Iterator
import difflib
import itertools
import json
import pathlib
from urllib.parse import quote

from transformer_zoo.ablations import page
from transformer_zoo.ablations import plots
from transformer_zoo.ablations import scores
from transformer_zoo.ablations import standing
from transformer_zoo.ablations import table
from transformer_zoo.ablations.results import RunResult
from transformer_zoo.ablations.results import StudyResults
from transformer_zoo.training.progress import duration

REPORT_FILE = "report.html"
_SAMPLES = 3
_MOST_CHARACTERS = 400
# Lines of a configuration that differ between any two runs.
_PLACES = ("MODEL_DIR", "RANDOM_SEED", "INITIAL_CHECKPOINT_PATH")


def write(study: StudyResults) -> pathlib.Path:
  """Writes `report.html` into the study's folder.

  Args:
    study: what the runs came to; what is missing is left out or named.

  Returns:
    The path of the page.
  """
  numbers = scores.build(study)
  path = study.folder / REPORT_FILE
  sections = [
    f"<h1>{page.text(study.name)}</h1>",
    f'<p class="lead">{page.text(study.question)}</p>',
    *_verdicts(numbers),
    *_unfinished(study),
    page.section("Scores", *_scores(study, numbers)),
    page.section("Learning curves", *_curves(study)),
    page.section("Predictions", *_predictions(study)),
    page.section("Configuration", *_configurations(study)),
    page.section("Runs", *_runs(study)),
    page.section("Commands", *_commands(study)),
    page.section("Environment", *_environments(study)),
  ]
  path.write_text(page.document(study.name, sections), encoding="utf-8")
  return path


def _verdicts(numbers) -> Iterator[str]:
  for row in table.others(numbers):
    sentence = page.text(table.verdict(numbers, row))
    yield f'<p class="verdict">{sentence}</p>'


def _unfinished(study) -> Iterator[str]:
  if study.unfinished():
    yield f'<p class="verdict">{page.text(study.progress())}</p>'
  for run in study.unfinished():
    kind = "verdict"
    if run.state not in (standing.RUNNING, standing.QUEUED):
      kind += " failed"
    yield f'<p class="{kind}">Not finished: {page.text(run.sentence)}</p>'


def _scores(study, numbers) -> Iterator[str]:
  if not numbers.columns:
    yield "<p>No run is finished yet.</p>"
    return
  yield _score_table(study, numbers, numbers.columns)
  for line in table.legend(study):
    yield f'<p class="note">{page.text(line)}</p>'
  yield page.legend(study.rows, plots.NUM_COLOURS)
  yield page.figure(
    plots.scores(numbers), "A dot for each seed, a bar at their mean."
  )
  if numbers.metrics:
    yield page.details(
      "Metrics of tasks that have several",
      _score_table(study, numbers, numbers.metrics),
    )
  yield (
    '<p class="note">All digits and every seed: '
    '<a href="table.csv">table.csv</a></p>'
  )


def _score_table(study, numbers, columns) -> str:
  def cell(row, column):
    one = numbers.cells[row, column]
    first, *rest = table.cell_text(one, len(study.seeds)).split(" (", 1)
    first = page.text(first)
    main = f'<b class="best">{first}</b>' if one.bold else first
    return main + "".join(f"<small>({page.text(r)}</small>" for r in rest)

  lines = [
    [page.text(column), *(cell(row, column) for row in numbers.rows)]
    for column in columns
  ]
  return page.table(["", *numbers.rows], lines, kind="scores")


def _curves(study) -> Iterator[str]:
  for phase in _phases(study):
    svg = plots.learning_curves(study, phase)
    if svg is not None:
      yield f"<h3>{page.text(phase)}</h3>"
      yield page.legend(study.rows, plots.NUM_COLOURS)
      caption = "Seeds thin, their mean bold; a shared run is drawn once."
      yield page.figure(svg, caption)


def _predictions(study) -> Iterator[str]:
  """A few examples of each task, from the first seed of every row."""
  by_task = {}
  for run in study.runs:
    if run.scored and run.seed == study.seeds[0] and run.result is not None:
      for task in run.result["scores"]:
        for index, sample in enumerate(_samples(run, task)):
          by_task.setdefault(task, {}).setdefault(index, {})[run.row] = sample
  for task, samples in by_task.items():
    lines = []
    for by_row in samples.values():
      first = next(iter(by_row.values()))
      answers = [by_row.get(row, {}).get("prediction") for row in study.rows]
      cells = [first.get("inputs"), first.get("targets"), *answers]
      lines.append([page.text(_short(cell)) for cell in cells])
    head = ["input", "target", *study.rows]
    # One is open, to show what there is.
    first_task = task == next(iter(by_task))
    content = page.table(head, lines, kind="words")
    yield page.details(task, content, opened=first_task)


def _samples(run: RunResult, task: str) -> list[dict]:
  """The first predictions of the checkpoint that the scores are of."""
  step = run.result.get("best_step")
  step = run.result["step"] if step is None else step
  path = run.folder / "predictions" / str(step) / f"{task}.jsonl"
  if not path.exists():
    return []
  with open(path, encoding="utf-8") as lines:
    return [json.loads(line) for line in itertools.islice(lines, _SAMPLES)]


def _configurations(study) -> Iterator[str]:
  yield (
    '<p class="note">The operative configuration of each phase, first seed. '
    f"Marked: lines that {page.text(study.baseline)} does not have, and its "
    "lines that are missing here; paths and seeds are not compared.</p>"
  )
  reference = {
    run.phase: _config(run) for run in _first_seed(study, study.baseline)
  }
  for row in study.rows:
    for run in _first_seed(study, row):
      mine = _config(run)
      title = f"{row}: {run.phase}"
      if mine is None:
        continue
      if row == study.baseline or reference.get(run.phase) is None:
        yield page.details(title, page.code("\n".join(mine)))
      else:
        marked, count = _marked(reference[run.phase], mine)
        title += f" — lines that differ: {count}"
        yield page.details(title, f"<pre>{marked}</pre>", opened=count > 0)


def _marked(reference: list[str], mine: list[str]) -> tuple[str, int]:
  """`mine` with its differences from `reference`, and their number."""

  def compared(line):
    # That a run starts from a checkpoint counts; from which folder does not.
    name = line.partition(" ")[0]
    given = name in _PLACES and not line.endswith("= None")
    return name if given else line

  changes = difflib.SequenceMatcher(
    None, [*map(compared, reference)], [*map(compared, mine)], autojunk=False
  )
  lines, count = [], 0
  for kind, *span in changes.get_opcodes():
    removed, kept = reference[slice(*span[:2])], mine[slice(*span[2:])]
    if kind == "equal":
      lines += [f"  {page.text(line)}\n" for line in kept]
      continue
    lines += [f"<del>- {page.text(line)}</del>\n" for line in removed]
    lines += [f"<ins>+ {page.text(line)}</ins>\n" for line in kept]
    count += len(removed) + len(kept)
  return "".join(lines), count


def _runs(study) -> Iterator[str]:
  lines = []
  for run in study.runs:
    folder = run.folder.relative_to(study.folder).as_posix()
    link = f'<a href="{quote(folder)}/">{page.text(folder)}</a>'
    result = run.result or {}
    seconds = result.get("seconds")
    lines.append(
      [
        page.text(f"{run.row} / seed {run.seed} / {run.phase}"),
        page.text(run.state + (" (shared)" if run.shared else "")),
        page.text(result.get("step", "—")),
        page.text(result.get("best_step") or "—"),
        page.text(f"{result['tokens']:,}" if "tokens" in result else "—"),
        page.text("—" if seconds is None else duration(seconds)),
        link,
      ]
    )
  rules = {
    f"{run.phase}: {run.result['selection']}": None
    for run in study.runs
    if run.result is not None and run.result.get("selection")
  }
  if rules:
    yield f"<p>Selection of checkpoints: {page.text('; '.join(rules))}.</p>"
  head = ["run", "state", "steps", "best step", "tokens", "time", "folder"]
  yield page.table(head, lines, kind="runs")


def _commands(study) -> Iterator[str]:
  yield page.code(study.command)
  alone = [
    f"# {run.row} / seed {run.seed} / {run.phase}\n{run.command}"
    for run in study.runs
    if not run.shared
  ]
  yield page.details("Each run alone", page.code("\n\n".join(alone)))


def _environments(study) -> Iterator[str]:
  """The environments of the runs, equal ones once."""
  found = {}
  for run in study.runs:
    path = run.folder / "environment.json"
    if path.exists() and not run.shared:
      text = path.read_text(encoding="utf-8")
      if text.rstrip().endswith("}"):  # Else it is being written.
        found.setdefault(text, []).append(run)
  for text, runs in found.items():
    read = json.loads(text)
    git, devices = read.get("git") or {}, read.get("devices") or {}
    packages = read.get("packages") or {}
    versions = [f"{k} {v}" for k, v in packages.items() if v is not None]
    commit = git.get("commit", "not a checkout")
    facts = {
      "runs": len(runs),
      "commit": commit + (" with local changes" if git.get("dirty") else ""),
      "devices": " ".join(
        str(devices.get(key, "")) for key in ("count", "kind", "backend")
      ),
      "machine": f"{read.get('platform')}, {read.get('cpu_count')} CPU cores, "
      f"{read.get('memory_gib')} GiB memory",
      "versions": f"Python {read.get('python')}, " + ", ".join(versions),
    }
    lines = [[page.text(k), page.text(v)] for k, v in facts.items()]
    yield page.table(["", ""], lines)


def _phases(study) -> list[str]:
  return list(dict.fromkeys(run.phase for run in study.runs))


def _first_seed(study, row) -> list[RunResult]:
  return [run for run in study.of_row(row) if run.seed == study.seeds[0]]


def _config(run: RunResult) -> list[str] | None:
  path = run.folder / "config.gin"
  if not path.exists():
    return None
  return path.read_text(encoding="utf-8").splitlines()


def _short(value: object) -> str:
  value = "—" if value is None else str(value)
  if len(value) <= _MOST_CHARACTERS:
    return value
  return value[:_MOST_CHARACTERS] + " …"
