"""`zoo evaluate`: a mixture in one go, interrupted, over all checkpoints."""

import importlib.util
import json
import shutil
import sys
import types

import numpy as np
import pytest

from transformer_zoo.checkpoints import checkpoint_sources
from transformer_zoo.checkpoints import run_contents
from transformer_zoo.data import prepare as prepare_room
from transformer_zoo.data.loader import evaluation_split
from transformer_zoo.data.storage import catalogue
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.storage import records
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding import generate as generate_lib
from transformer_zoo.evaluation import journal
from transformer_zoo.evaluation import submission
from transformer_zoo.runs import evaluate as evaluate_lib
from transformer_zoo.studies.statistics import predictions
from transformer_zoo.training.checkpoints import reading

SMALL = ("TRAIN_STEPS=4", "EVAL_PERIOD=2", "CHECKPOINT_PERIOD=2")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  return tmp_path_factory.mktemp("runs")


@pytest.fixture
def trained(train, runs):
  """A run folder with checkpoints of steps 2 and 4."""
  folder = runs / "run"
  if not (folder / "result.json").exists():
    code, _, error = train(folder, *SMALL)
    assert code == 0, error
  return folder


@pytest.fixture
def evaluate(zoo, trained):
  """Returns a function that evaluates: JSON (None if refused) and stderr."""

  def call(*words, checkpoint=trained, mixture="mixed", refused=False):
    code, output, error = zoo(
      "evaluate", f"--checkpoint={checkpoint}", f"--mixture={mixture}", *words
    )
    assert code == (2 if refused else 0), error
    return (None if refused else json.loads(output)), error

  return call


def final_files(folder):
  return {
    path.relative_to(folder).as_posix(): path.read_bytes()
    for path in sorted(folder.rglob("*"))
    if path.is_file()
  }


@pytest.mark.slow
def test_a_mixture_in_one_go(evaluate, trained, tmp_path):
  found, error = evaluate(f"--output_dir={tmp_path}")
  assert set(found["scores"]) == {"colours"}
  assert found["num_examples"] == {"colours": 20, "unscored": 20}
  assert set(found["loss"]) == {"colours", "unscored"}
  assert set(found["token_accuracy"]) == {"unscored"}
  assert found["without_split"] == ["no_validation"]
  assert "without a split 'validation', passed over: no_validation" in error
  assert "average of 1 scored tasks" in error
  step = found["checkpoint"].rpartition("/")[2]
  assert json.loads((tmp_path / step / "result.json").read_text()) == found
  lines = (tmp_path / step / "colours.jsonl").read_text().splitlines()
  line = json.loads(lines[0])
  assert len(lines) == 20 and line["answer"] == line["prediction"]
  assert line["log_likelihood"] < 0 < line["target_tokens"]


@pytest.mark.slow
def test_what_is_prepared_is_told_on_stderr(evaluate, monkeypatch, tmp_path):
  def prepare(name, *, prepared_dir, splits, required_splits, first, report):
    assert [*splits] == [*required_splits] == ["validation"]
    assert first is None
    report("prepared colours")
    return manifest.load(name, prepared_dir)

  module = types.SimpleNamespace(prepare=prepare)
  monkeypatch.setitem(
    sys.modules, "transformer_zoo.data.prepare.preparation", module
  )
  monkeypatch.setattr(prepare_room, "preparation", module, raising=False)
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
  monkeypatch.setattr(catalogue, "check", lambda name: None)
  _, error = evaluate(f"--output_dir={tmp_path}", mixture="colours")
  assert "prepared colours\n" in error


@pytest.mark.slow
def test_another_vocabulary_is_told(evaluate, trained, monkeypatch, tmp_path):
  other = types.SimpleNamespace(path="other", encode=lambda text: [7])
  monkeypatch.setattr(
    checkpoint_sources, "_vocabulary_of_run", lambda run: other
  )
  step = trained / "checkpoints" / "4"
  _, error = evaluate(
    f"--output_dir={tmp_path}", checkpoint=step, mixture="colours"
  )
  note = f"note on the checkpoint {str(step)!r}: its vocabulary 'other' has "
  assert f"{note}other ids than " in error


def test_a_vocabulary_that_is_gone_tells_nothing(trained, monkeypatch):
  gone = Vocabulary("gone.model")
  monkeypatch.setattr(run_contents, "vocabulary_of", lambda run: gone)
  source = checkpoint_sources.open_source(trained)
  assert source.find_vocabulary() is None


@pytest.mark.slow
@pytest.mark.parametrize("search", ["num_beams=3", "temperature=1.0"])
def test_one_output_is_made_however_many_are_returned(
  evaluate, monkeypatch, tmp_path, search
):
  """The first of several is what one alone would be."""
  made = []
  generate = generate_lib.generate

  def counted(*arguments, options, **keywords):
    made.append(options.num_return)
    return generate(*arguments, options=options, **keywords)

  monkeypatch.setattr(generate_lib, "generate", counted)
  words = [f"--gin.DecodingOptions.{search}", "--gin.evaluate.max_examples=4"]
  files = []
  for number in (1, 3):
    output = tmp_path / str(number)
    evaluate(
      *words,
      f"--output_dir={output}",
      f"--gin.DecodingOptions.num_return={number}",
      mixture="colours",
    )
    files.append(next(output.rglob("colours.jsonl")).read_text())
  assert files[0] == files[1] and set(made) == {1}


def test_a_list_of_one_checkpoint_and_a_suffix(evaluate, trained, tmp_path):
  """As a study evaluates; the predictions give the score."""
  found, _ = evaluate(
    f"--output_dir={tmp_path}",
    f"--gin.CHECKPOINT_PATH={[str(trained)]}",
    "--gin.evaluate.suffix='_4x'",
  )
  assert set(found["scores"]) == {"colours_4x"}
  assert json.loads((tmp_path / "result.json").read_text()) == found
  lines = (tmp_path / "unscored_4x.jsonl").read_text().splitlines()
  rows = list(map(json.loads, lines))
  right, all_ = (
    sum(row[name] for row in rows) for name in ("answer", "target_answer")
  )
  score = found["token_accuracy"]["unscored_4x"]
  assert len(rows) == 20 and score == pytest.approx(100 * right / all_)
  path = tmp_path / "unscored_4x.jsonl"
  once = predictions.read(path).resampled()(np.ones((1, 20)))
  assert once["token_accuracy"] == pytest.approx(score)
  assert once["loss"] == pytest.approx(found["loss"]["unscored_4x"])


def test_probes_are_asked_in_place_of_examples(evaluate, tmp_path):
  (tmp_path / "own.tsv").write_text("good\tbad\na b c\ta b d\na c\ta d\n")
  words = (
    f"--gin.own/Pairs.paths=('{tmp_path / 'own.tsv'}',)",
    "--gin.evaluate.probes=(@own/Pairs(),)",
    "--gin.evaluate.suffix='_4x'",
  )
  found, _ = evaluate(f"--output_dir={tmp_path}", *words)
  assert json.loads((tmp_path / "result.json").read_text()) == found
  read = predictions.read(tmp_path / "own_4x.jsonl")
  once = read.resampled()(np.ones((1, 2)))
  assert found["scores"] == {"own_4x": {"own/all": once["own/all"][0]}}
  _, error = evaluate("--all_checkpoints", *words, refused=True)
  assert "probes asked, in one checkpoint at a time; name one" in error


@pytest.mark.slow
def test_results_lie_in_the_run_folder_by_default(evaluate, trained):
  found, _ = evaluate(mixture="colours")
  step = found["checkpoint"].rpartition("/")[2]
  folder = trained / "evaluation" / "colours" / "validation" / step
  assert (folder / "colours.jsonl").exists()
  _, error = evaluate(mixture="colours")
  assert f"colours: 20 of 20 examples are in {folder} from before" in error


@pytest.mark.slow
def test_truncated_examples_are_told(evaluate, tmp_path):
  found, error = evaluate(
    f"--output_dir={tmp_path}",
    "--gin.TASK_FEATURE_LENGTHS={'inputs': 4, 'targets': 8}",
    mixture="colours",
  )
  number = found["truncated"]["colours"]["inputs"]
  assert 0 < number <= 20
  assert (
    f"{number} of 20 examples have more inputs than 4 tokens and are cut"
    in error
  )


@pytest.fixture
def interrupt(monkeypatch):
  """Returns a function: the journal takes so many batches, then Ctrl-C."""

  def after(most):
    taken = []
    append = journal.Journal.append

    def counted(self, rows):
      if len(taken) == most:
        raise KeyboardInterrupt
      taken.append(rows)
      append(self, rows)

    monkeypatch.setattr(journal.Journal, "append", counted)
    return lambda: monkeypatch.setattr(journal.Journal, "append", append)

  return after


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 4])
def test_interrupted_it_continues_to_the_same_files(
  evaluate, zoo, trained, interrupt, tmp_path, most
):
  """Three batches a task: within the first task, and within the second."""
  evaluate(f"--output_dir={tmp_path / 'whole'}")
  undo = interrupt(most)
  code, _, _ = zoo(
    "evaluate",
    f"--checkpoint={trained}",
    "--mixture=mixed",
    f"--output_dir={tmp_path / 'cut'}",
  )
  assert code == 130
  assert not list((tmp_path / "cut").rglob("result.json"))
  undo()
  _, error = evaluate(f"--output_dir={tmp_path / 'cut'}")
  assert f"{8 if most == 1 else 20} of 20 examples are in " in error
  assert final_files(tmp_path / "cut") == final_files(tmp_path / "whole")


@pytest.mark.slow
def test_another_checkpoint_shares_nothing(evaluate, trained, tmp_path):
  folder = trained / "checkpoints"
  place = tmp_path / "same"
  shutil.copytree(folder / "2", place)
  evaluate(f"--output_dir={tmp_path / 'out'}", checkpoint=folder / "2")
  first = final_files(tmp_path / "out" / "2")
  (tmp_path / "out" / "2").rename(tmp_path / "out" / "4")
  _, error = evaluate(
    f"--output_dir={tmp_path / 'out'}", checkpoint=folder / "4"
  )
  assert "colours.journal is of another evaluation (checkpoint): it" in error
  assert final_files(tmp_path / "out" / "4") != first


@pytest.mark.slow
def test_groups_change_nothing(evaluate, monkeypatch, tmp_path):
  grouped, _ = evaluate(f"--output_dir={tmp_path / 'a'}", mixture="colours")
  monkeypatch.setattr(
    evaluation_split, "_MENUS", {"inputs": (1 / 2, 4), "targets": (1 / 2, 2)}
  )
  narrow, _ = evaluate(f"--output_dir={tmp_path / 'b'}", mixture="colours")
  assert narrow["scores"] == grouped["scores"]
  assert narrow["loss"] == pytest.approx(grouped["loss"], rel=1e-5)
  lines = [
    [
      json.loads(line)["prediction"]
      for line in next(folder.rglob("colours.jsonl")).read_text().splitlines()
    ]
    for folder in (tmp_path / "a", tmp_path / "b")
  ]
  assert lines[0] == lines[1]


@pytest.mark.slow
def test_all_checkpoints_and_the_best(evaluate, trained, tmp_path):
  run = shutil.copytree(trained, tmp_path / "run")
  (run / "checkpoints" / "1.damaged").mkdir()
  found, error = evaluate("--all_checkpoints", checkpoint=run)
  assert list(found["checkpoints"]) == ["2", "4"]
  scores = {
    int(step): result["average"]
    for step, result in found["checkpoints"].items()
  }
  step = max(scores, key=scores.get)
  best = found["best"]
  assert best["tasks"]["colours"]["step"] == step
  assert best["groups"]["all tasks"] == {"step": step, "average": scores[step]}
  assert f"  colours: {scores[step]:.2f} at step {step}" in error
  assert "best per task (highest mean of the task's metrics" in error
  assert list(found["damaged"]) == ["1.damaged"]
  result = run / "evaluation" / "mixed" / "validation" / "result.json"
  assert json.loads(result.read_text()) == found
  # The curve of each task, for `zoo watch`.
  curve = [
    (line["step"], line["validation/colours/accuracy"])
    for line in lines_of(result.with_name("metrics.jsonl"))
  ]
  assert curve == [
    (int(step), result["scores"]["colours"]["accuracy"])
    for step, result in found["checkpoints"].items()
  ]
  shown = ", ".join(f"{score:.2f} at step {step}" for step, score in curve)
  assert f"scores by step\n  colours: {shown}\n" in error


@pytest.fixture
def both(trained):
  """The two members of an ensemble."""
  return [str(trained / "checkpoints" / step) for step in ("2", "4")]


def lines_of(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_an_ensemble(evaluate, zoo, both, tmp_path):
  """Its loss is at most the mean of its members': log-sum-exp is convex."""
  first, other = both
  together, error = evaluate(
    f"--checkpoint={other}",
    f"--output_dir={tmp_path / 'both'}",
    checkpoint=first,
    mixture="colours",
  )
  assert together["checkpoint"] == both
  assert f"{first} and {other}, split validation" in error
  result = tmp_path / "both" / "result.json"
  assert json.loads(result.read_text()) == together
  found = lines_of(tmp_path / "both" / "colours.jsonl")
  alone = []
  for place in both:
    evaluate(
      f"--output_dir={tmp_path / 'one'}", checkpoint=place, mixture="colours"
    )
    step = place.rpartition("/")[2]
    alone.append(lines_of(tmp_path / "one" / step / "colours.jsonl"))
  for line, *members in zip(found, *alone, strict=True):
    mean = sum(member["log_likelihood"] for member in members) / 2
    assert line["log_likelihood"] >= mean - 1e-5
    assert all(line["log_likelihood"] != m["log_likelihood"] for m in members)
  texts = tmp_path / "texts.jsonl"
  texts.write_text("".join(json.dumps(line) + "\n" for line in found))
  words = (f"--checkpoint={place}" for place in both)
  code, output, error = zoo("infer", *words, "--score", texts)
  assert code == 0, error
  scored = map(json.loads, output.splitlines())
  assert [line["log_likelihood"] for line in scored] == pytest.approx(
    [line["log_likelihood"] for line in found], rel=1e-5
  )


@pytest.mark.parametrize(
  ("words", "sentence"),
  [
    (
      (),
      "an ensemble of 2 checkpoints lies in no run folder: say with "
      "--output_dir where its predictions go",
    ),
    (
      ("--all_checkpoints",),
      "--all_checkpoints is of one run: name one checkpoint, not 2",
    ),
  ],
)
def test_ensembles_that_are_refused(evaluate, both, words, sentence):
  first, other = both
  _, error = evaluate(
    f"--checkpoint={other}", *words, checkpoint=first, refused=True
  )
  assert f"zoo: error: {sentence}\n" in error


def test_all_checkpoints_of_one_checkpoint(evaluate, trained):
  step = sorted((trained / "checkpoints").iterdir())[-1]
  _, error = evaluate("--all_checkpoints", checkpoint=step, refused=True)
  assert error.endswith(
    f"zoo: error: --all_checkpoints is of a run, and {str(step)!r} is one "
    "checkpoint; give the run folder, or leave the option out\n"
  )


@pytest.mark.slow
def test_damaged_checkpoints_are_named_and_passed_over(
  evaluate, trained, tmp_path
):
  run = shutil.copytree(trained, tmp_path / "run")
  for path in (run / "checkpoints" / "2" / "state" / "d").iterdir():
    path.write_bytes(path.read_bytes()[:-7])
  found, error = evaluate("--all_checkpoints", checkpoint=run)
  assert list(found["checkpoints"]) == ["4"] and list(found["damaged"]) == ["2"]
  damaged = str(run / "checkpoints" / "2")
  assert f"passed over: checkpoint {damaged!r} is damaged: " in error
  _, error = evaluate(checkpoint=damaged, refused=True)
  assert f"zoo: error: checkpoint {damaged!r} is damaged: " in error


def test_a_split_that_no_task_has(evaluate):
  _, error = evaluate("--split=test", refused=True)
  assert error.splitlines()[-1] == (
    "zoo: error: no task of mixture 'mixed' has a split 'test'; there are "
    "train, validation"
  )


def test_submission(evaluate, prepared_dir, monkeypatch, tmp_path):
  """Answers of the split, without scores, as the server wants them."""
  form = submission.Format("Colours.jsonl", None)
  monkeypatch.setitem(submission.FORMATS, "colours", form)
  monkeypatch.setitem(
    submission._INDICES,
    "Colours.jsonl",
    lambda example: example["inputs_pretokenized"],
  )
  found, error = evaluate(
    f"--submission={tmp_path / 'files'}",
    "--split=validation",
    f"--output_dir={tmp_path / 'out'}",
  )
  assert found["scores"] == {} and found["num_examples"] == {"colours": 20}
  files = found["submission"]["files"]
  assert files == {"Colours.jsonl": {"rows": 20, "invalid": 0}}
  assert "  Colours.jsonl: 20 rows" in error
  lines = (tmp_path / "files" / "Colours.jsonl").read_text().splitlines()
  rows = {row["idx"]: row["label"] for row in map(json.loads, lines)}
  path = next((tmp_path / "out").rglob("colours.jsonl"))
  predicted = map(json.loads, path.read_text().splitlines())
  assert rows == {row["inputs"]: row["answer"] for row in predicted}


@pytest.mark.parametrize("target", ["<unk>", "-1.0"])
def test_hidden_labels_are_not_scored(
  evaluate, prepared_dir, monkeypatch, tmp_path, target
):
  """One label that is known is enough."""
  read = records.ExampleRecords.read

  def hidden(self, indices):
    return [
      (ids, text | {"targets_pretokenized": target if i != known else "red"})
      for i, (ids, text) in zip(indices, read(self, indices), strict=True)
    ]

  monkeypatch.setattr(records.ExampleRecords, "read", hidden)
  known, sentence = None, "zoo: error: the labels of split 'validation' are "
  _, error = evaluate(f"--output_dir={tmp_path}", refused=True)
  assert error.splitlines()[-1] == (
    f"{sentence}hidden in colours, unscored, so nothing can be scored; choose "
    "a split that has labels"
  )
  form = submission.Format("Colours.jsonl", None)
  monkeypatch.setitem(submission.FORMATS, "colours", form)
  _, error = evaluate(
    f"--output_dir={tmp_path}", mixture="colours", refused=True
  )
  assert error.splitlines()[-1] == (
    f"{sentence}hidden in colours, so nothing can be scored; --submission DIR "
    "writes the answers for the benchmark's server"
  )
  known = 19
  mixture = manifest.load("mixed", prepared_dir)
  having, _ = evaluate_lib.choose_tasks(mixture, "validation", submitted=False)
  assert [task.name for task in having] == ["colours", "unscored"]


@pytest.mark.parametrize(
  "words, sentence",
  [
    ((), "no task of 'mixed' belongs to a submission; those that do are glue_"),
    (
      ("--all_checkpoints",),
      "a submission is of one checkpoint and of every row: leave out "
      "--all_checkpoints",
    ),
    (
      ("--gin.evaluate.max_examples=5",),
      "a submission is of one checkpoint and of every row: leave out "
      "evaluate.max_examples",
    ),
  ],
)
def test_submissions_that_are_refused(evaluate, tmp_path, words, sentence):
  _, error = evaluate(f"--submission={tmp_path}", *words, refused=True)
  assert f"zoo: error: {sentence}" in error


def test_a_folder_that_cannot_be_written(evaluate, tmp_path):
  (tmp_path / "file").write_text("")
  _, error = evaluate(f"--output_dir={tmp_path / 'file'}", refused=True)
  assert "results cannot be written into " in error
  assert "choose another folder with --output_dir" in error


def test_steps_of_a_run(trained):
  assert list(reading.steps(trained)) == [2, 4]
  assert reading.unusable(trained) == {}
