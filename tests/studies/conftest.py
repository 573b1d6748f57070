"""Runs that train nothing: they write what a run folder holds, in no time."""

import functools
import hashlib
import json
import pathlib
import re
import types

import gin
import numpy as np
import pytest

from transformer_zoo.data.features import converters
from transformer_zoo.errors import UserError
from transformer_zoo.studies import runner
from transformer_zoo.studies.design import plan
from transformer_zoo.studies.design import suite as suites
from transformer_zoo.studies.execution import costs
from transformer_zoo.studies.execution import results
from transformer_zoo.studies.execution import single_run
from transformer_zoo.training.monitoring import recorder

STUDY = """
Study.question = 'Does <pre-training> help?'
Study.seeds = (0, 1, 2)
Study.rows = (@baseline/Row(), @no_pretraining/Row(), @half_as_long/Row())
baseline/Row.label = 'the baseline'
no_pretraining/Row.phases = ('finetune',)
half_as_long/Row.changes = {'finetune': ('TRAIN_STEPS=$(finetune_steps // 2)',)}
"""
OTHER_STUDY = """
Study.question = 'Does <more> fine-tuning help?'
Study.seeds = (0, 1, 2)
Study.rows = (@baseline/Row(), @longer/Row())
longer/Row.changes = {'finetune': ('TRAIN_STEPS=30',)}
"""
SUITE = """
Suite.values = {'finetune_steps': 20}
Suite.phases = {
  'pretrain': ("MIXTURE_OR_TASK_NAME='corpus'", 'TRAIN_STEPS=40'),
  'finetune': ('TRAIN_STEPS=$(finetune_steps)',),
  'ensemble': (),
}
Suite.groups = {
  'sentiment': ("MIXTURE_OR_TASK_NAME='sentiment'",),
  'similarity': ("MIXTURE_OR_TASK_NAME='similarity'",),
}
Suite.columns = (@Sentiment/Column(), @Similarity/Column())
Sentiment/Column.group = 'sentiment'
Sentiment/Column.published = 'GLUE'
Sentiment/Column.scores = ('sentiment',)
Similarity/Column.group = 'similarity'
Similarity/Column.scores = ('similarity: pearson_corrcoef',)
"""


class FakeRuns:
  """Stands in for `transformer_zoo.config` and the training behind it."""

  def __init__(self):
    self.trained = []  # Folder of every run that trained.
    self.started_from = {}  # Folder -> checkpoint.
    self.broken = lambda what: False
    self.data_mark = lambda mixture, prepared_dir: f"{mixture} as it was"

  def load(self, gin_files, bindings, search_paths, *, changes, root):
    assert not gin_files
    for change in changes:
      if change.endswith(".gin"):
        raise UserError(f"there is no gin file {change!r}")
    gin.clear_config()
    macros = [one for one in bindings if not one.startswith(f"{root}.")]
    gin.parse_config([*changes, *macros])
    places = [one for one in bindings if one not in macros]
    self.output_dir = "".join(places).partition("=")[2].strip("'")

  def setting(self, parameter):
    if parameter == "prepared_dir":
      return "prepared"
    if parameter == "probes":
      return ()
    if parameter == "converter":
      return converters.ENCODER_DECODER
    if parameter == "train_steps":
      bound = "TRAIN_STEPS" in gin.config_str()
      return gin.query_parameter("%TRAIN_STEPS") if bound else 1
    return gin.query_parameter("%MIXTURE_OR_TASK_NAME")

  def config_hash(self):
    lines = gin.config_str().splitlines()
    text = "".join(line for line in lines if not line.startswith("MODEL_DIR"))
    return hashlib.sha256(text.encode()).hexdigest()

  def call(self, name):
    return train(self) if name == "train" else evaluate(self)

  def operative_config(self):
    return gin.config_str()


def evaluate(runs):
  folder = pathlib.Path(runs.output_dir)
  mixture = gin.query_parameter("%MIXTURE_OR_TASK_NAME")
  members = gin.query_parameter("%CHECKPOINT_PATH")
  scores = {mixture: _scores(mixture, 90.0, np.random.default_rng(0))}
  sample = {"inputs": "a", "targets": "x", "prediction": "y"}
  (folder / f"{mixture}.jsonl").write_text((json.dumps(sample) + "\n") * 8)
  result = {"checkpoint": members, "scores": scores}
  (folder / "result.json").write_text(json.dumps(result))


def _scores(task, level, rng):
  if task == "sentiment":
    return {"accuracy": level + rng.normal()}
  return {
    "pearson_corrcoef": level - 9 + rng.normal(),
    "spearman_corrcoef": level - 12 + rng.normal(),
  }


def train(runs):
  folder = pathlib.Path(gin.query_parameter("%MODEL_DIR"))
  folder.mkdir(parents=True, exist_ok=True)
  if (folder / "result.json").exists():
    return folder / "result.json"
  steps = gin.query_parameter("%TRAIN_STEPS")
  seed = gin.query_parameter("%RANDOM_SEED")
  mixture = gin.query_parameter("%MIXTURE_OR_TASK_NAME")
  if runs.broken(f"{mixture}, seed {seed}, {steps} steps"):
    raise FloatingPointError("loss is NaN at step 7\nmore detail")
  runs.trained.append(folder)
  started = "INITIAL_CHECKPOINT_PATH" in gin.config_str()
  if started:
    runs.started_from[folder] = gin.query_parameter("%INITIAL_CHECKPOINT_PATH")
  rng = np.random.default_rng([seed, steps, started])
  finetuning = mixture != "corpus"
  level = 80.0 + steps / 10 if started else 50.0
  scores = {}
  with recorder.Recorder(folder) as run:
    for step in range(1, steps + 1):
      loss = 1.0 + 3.0 / step + rng.normal() / 20
      run.record(
        step,
        {"train/loss": loss, "train/learning_rate": 0.01, "train/tokens": 1000},
      )
      run.timing(step, {"timing/seconds_per_step": 1.5})
      if step % 5 == 0 and finetuning:
        scores = {mixture: _scores(mixture, level, rng)}
        values = {
          f"validation/{task}/{metric}": value * step / steps
          for task, metrics in scores.items()
          for metric, value in metrics.items()
        }
        run.record(step, {"validation/loss": loss + 0.2, **values})
  for task in scores:
    path = folder / "predictions" / str(steps - 5) / f"{task}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    sample = {"inputs": f"{task}: <b> & c", "targets": "x", "prediction": "y"}
    path.write_text((json.dumps(sample) + "\n") * 8)
  config = gin.config_str().replace("\\\n    ", "")  # One line each, as ours.
  (folder / "config.gin").write_text(config)
  (folder / "environment.json").write_text(
    json.dumps(
      {
        "python": "3.11.1",
        "packages": {"jax": "0.10", "seqio": None},
        "platform": "Linux",
        "processor": "a fast one",
        "cpu_count": 2,
        "memory_gib": 8.0,
        "devices": {"backend": "cpu", "kind": "cpu", "count": 1},
        "git": {"commit": "f" * 40, "dirty": True},
      }
    )
  )
  result = {
    "step": steps,
    "best_step": steps - 5 if finetuning else None,
    "selection": "highest average validation score" if finetuning else "last",
    "scores": scores,
    "average": None,
    "loss": {},
    "config_hash": runs.config_hash(),
    "seconds": 61.0,
    "tokens": steps * 1000,
    "budget": {
      "parameters": 812_032,
      "trained_parameters": 812_032,
      "steps": steps,
      "input_tokens": steps * 900,
      "target_tokens": steps * 100,
      "flops": steps * 4e9,
    },
  }
  (folder / "result.json").write_text(json.dumps(result))
  return folder / "result.json"


def count(planned, *_, **__):
  """In place of `costs.jobs`: the FLOPs that `train` writes as the budget."""

  def flops(run):
    steps = re.findall("TRAIN_STEPS ?= ?([0-9]+)", "\n".join(run.changes))
    return int(steps[-1]) * 4e9

  return [
    costs.Job(run, "", types.SimpleNamespace(flops=flops(run)))
    for run in planned
    if run.command == "train"
  ]


def faked(patch):
  """Puts fake runs in place of training, and returns them."""
  runs = FakeRuns()
  patch.setattr(plan, "config", runs)
  patch.setattr(single_run, "config", runs)
  patch.setattr(plan, "mark_of_made_data", runs.data_mark)
  patch.setattr(costs, "jobs", count)
  return runs


@pytest.fixture
def fake(monkeypatch):
  return faked(monkeypatch)


def run_in(folder, *replacements, **options):
  """Runs the study in a folder, with text replaced in it."""
  study, suite = folder / "tiny.gin", folder / "two.gin"
  text = STUDY
  for old, new in replacements:
    assert old in text
    text = text.replace(old, new)
  study.write_text(text)
  suite.write_text(SUITE)
  options = {"output_dir": folder / "runs"} | options
  return runner.run_study(str(study), suite=str(suite), **options)


@pytest.fixture
def run_tiny(fake, tmp_path):
  """Runs the study, with text replaced in it, and returns what came of it."""
  return functools.partial(run_in, tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """Returns the folder of the study with given text and seeds, run once.

  Tests share it: they read it, or a copy that they change.
  """

  @functools.cache
  def run(*replacements, seeds=(0, 1, 2)):
    with pytest.MonkeyPatch.context() as patch:
      faked(patch)
      place = tmp_path_factory.mktemp("tiny")
      return run_in(place, *replacements, seeds=seeds).folder

  return run


@pytest.fixture
def make_study(tmp_path):
  """Makes what a study's runs came to, of scores and without any folders."""

  def make(scores, *, columns=None, published="", labels=None, budgets=None):
    """Of `{row: {seed: {task: {metric: value}}}}`, the first the baseline."""
    labels, budgets = labels or {}, budgets or {}
    every = [one for by_seed in scores.values() for one in by_seed.values()]
    tasks = dict.fromkeys(task for one in every for task in one)
    runs = tuple(
      results.RunResult(
        row=row,
        seed=seed,
        group="",
        phase="finetune",
        member=0,
        scored=True,
        folder=tmp_path / row / str(seed),
        starts=(),
        shared=False,
        state="finished",
        reason="",
        command="",
        fingerprint="",
        result={
          "step": 1,
          "best_step": None,
          "scores": by_task,
          "seconds": 60.0,
          **({"budget": budgets[row]} if row in budgets else {}),
        },
      )
      for row, by_seed in scores.items()
      for seed, by_task in by_seed.items()
    )
    return results.StudyResults(
      folder=tmp_path,
      name="tiny",
      question="Why?",
      suite="two",
      baseline=next(iter(scores)),
      seeds=tuple(range(max(map(len, scores.values())))),
      command="zoo ablate tiny",
      published=published,
      columns=columns
      or tuple(suites.Column(name=task, scores=(task,)) for task in tasks),
      rows={
        row: results.RowInfo(
          label=labels.get(row, row), published=labels.get(row, "")
        )
        for row in scores
      },
      runs=runs,
    )

  return make


@pytest.fixture
def other_study():
  """The gin file of a study that shares its baseline with the tiny one."""
  return OTHER_STUDY
