"""The order of a study's runs, what they share, reuse and survive."""

import json
import os
import pathlib
import re
import shlex

import gin
import jax
import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.studies.execution import result_file
from transformer_zoo.studies.execution import results


def of(outcome, name):
  """The run of that name."""
  (run,) = [r for r in results.read(outcome.folder).runs if r.name == name]
  return run


def test_each_distinct_run_trains_once_in_order(run_tiny, fake, capsys):
  outcome = run_tiny(seeds=[5])
  read = results.read(outcome.folder)
  ran = [run for run in read.runs if not run.shared]
  assert [run.folder for run in ran] == fake.trained
  assert [run.name for run in ran] == [
    "baseline / seed 5 / pretrain",
    "baseline / seed 5 / sentiment / finetune",
    "baseline / seed 5 / similarity / finetune",
    "no_pretraining / seed 5 / sentiment / finetune",
    "no_pretraining / seed 5 / similarity / finetune",
    "half_as_long / seed 5 / sentiment / finetune",
    "half_as_long / seed 5 / similarity / finetune",
  ]
  assert outcome.failures == ()
  out = capsys.readouterr().out
  assert "study tiny: 7 runs (rows: 3, seeds: 1, shared runs: 1)" in out
  assert "run 2 of 7: baseline / seed 5 / sentiment / finetune  fin" in out
  # Two runs of half as many steps as those of their groups.
  assert "5 of 7 done; about 1 min 01 s left" in out
  assert "all done" in out


def test_the_first_seeds_have_a_table_before_the_last_one(run_tiny, capsys):
  run_tiny(seeds=[5, 6])
  out = capsys.readouterr().out
  first = out.index("tiny, seed 5 complete")
  assert out.count("seed 5 / similarity / finetune  fin", 0, first) == 3
  assert out.index("seed 6 / pretrain") > first
  assert "seed 6 complete" not in out
  assert "the baseline" in out[first : out.index("run 8 of", first)]


def test_a_phase_starts_from_the_best_checkpoint_or_the_last(run_tiny, fake):
  outcome = run_tiny(seeds=[0])
  pretrain = of(outcome, "baseline / seed 0 / pretrain").folder
  assert (
    list(fake.started_from.values()) == [str(pretrain / "checkpoints/40")] * 4
  )
  assert set(fake.started_from) == {
    run.folder
    for run in results.read(outcome.folder).runs
    if run.phase == "finetune" and run.row != "no_pretraining"
  }


def test_studies_share_the_pool_of_runs(run_tiny, fake, capsys):
  run_tiny(seeds=[0])
  count = len(fake.trained)
  other = run_tiny(
    ("Study.question", "Study.name = 'other'\nStudy.question"),
    seeds=[0, 1],
  )
  assert other.folder.name == "other-two"
  assert len(fake.trained) == 2 * count
  assert capsys.readouterr().out.count("  reused (") == count


def test_checkpoints_may_lie_elsewhere(run_tiny):
  folder = of(run_tiny(seeds=[0]), "baseline / seed 0 / pretrain").folder
  with open(folder / "config.gin", "a") as config:
    config.write("\nCheckpointing.folder = 'gs://bucket/a'\n")
  assert result_file.checkpoint_of(folder) == "gs://bucket/a/40"


def test_the_members_of_an_ensemble_are_scored_together(run_tiny):
  alone = "no_pretraining/Row.phases = ('finetune',)"
  two = "no_pretraining/Row.copies = {'finetune': 2}"
  came = run_tiny((alone, two), seeds=[0])
  assert came.failures == ()
  run = of(came, "no_pretraining / seed 0 / sentiment / ensemble")
  assert run.scores.keys() == {"sentiment"}
  assert run.predictions("sentiment").exists()
  first, second = (f"{start}/checkpoints/15" for start in run.starts)
  assert result_file.read(run.folder)["checkpoint"] == [first, second]
  assert run.command.endswith(f" --checkpoint={first} --checkpoint={second}")
  assert "CHECKPOINT_PATH" in (run.folder / "config.gin").read_text()
  read = results.read(came.folder)
  assert read.scored_runs("no_pretraining", "sentiment") == (run,)


def test_each_task_is_scored_at_its_own_best_step(tmp_path):
  result = {
    "step": 20,
    "best_step": 10,
    "scores": {"a": {"f1": 1.0}, "b": {"f1": 5.0}, "without": {}},
    "best_by_task": {
      "a": {"step": 15, "score": 3.0, "scores": {"f1": 3.0}},
      "b": {"step": 10, "score": 5.0, "scores": {"f1": 5.0}},
    },
  }
  assert result_file.chosen_scores(result) == {
    "a": {"f1": 3.0},
    "b": {"f1": 5.0},
    "without": {},
  }
  assert [result_file.chosen_step(result, task) for task in ("a", "b")] == [
    15,
    10,
  ]
  older = {"step": 20, "best_step": None, "scores": {"a": {"f1": 1.0}}}
  assert result_file.chosen_scores(older) == {"a": {"f1": 1.0}}
  assert result_file.chosen_step(older, "a") == 20
  text = {
    "scores": {"a": {"f1": 1.0}},
    "token_accuracy": {"corpus": 2.0},
    "loss": {"a": 0.5, "corpus": 1.5},
  }
  assert result_file.chosen_scores(text) == {
    "a": {"f1": 1.0},
    "corpus": {"token_accuracy": 2.0, "loss": 1.5},
  }


def test_sharing_is_written_down(run_tiny):
  came = run_tiny(seeds=[0])
  read = results.read(came.folder)
  shared = [(r.row, r.phase) for r in read.runs if r.shared]
  assert shared == [("half_as_long", "pretrain")]
  (run,) = [r for r in read.runs if r.shared]
  assert run.folder == of(came, "baseline / seed 0 / pretrain").folder
  assert run.state == "finished"


def test_a_second_call_reuses_everything(run_tiny, fake, capsys):
  run_tiny()
  count = len(fake.trained)
  capsys.readouterr()
  assert run_tiny().failures == ()
  assert len(fake.trained) == count
  out = capsys.readouterr().out
  assert out.count("  reused (") == count
  assert "  finished (" not in out


@pytest.mark.parametrize("moved", [False, True])
def test_the_output_folder_may_be_spelled_another_way(
  run_tiny, fake, tmp_path, monkeypatch, moved
):
  fake.broken = lambda what: what.endswith(" 10 steps")
  assert len(run_tiny(seeds=[0]).failures) == 2
  fake.broken = lambda what: False
  monkeypatch.chdir(tmp_path)
  other = pathlib.Path("other")
  if moved:
    (tmp_path / "runs").rename(other)
  else:
    other.symlink_to("runs")
  before = len(fake.trained)
  came = run_tiny(seeds=[0], output_dir="other")
  assert came.failures == () and len(fake.trained) == before + 2
  assert came.folder == other / "tiny-two"
  assert set(fake.trained[before:]) < {
    r.folder for r in results.read(other / "tiny-two").runs
  }


def test_a_failed_run_does_not_lose_the_others(run_tiny, fake, capsys):
  fake.broken = lambda what: "corpus, seed 1" in what
  outcome = run_tiny(seeds=[0, 1])
  assert outcome.failures == (
    "baseline / seed 1 / pretrain: FloatingPointError: loss is NaN at step 7",
    "baseline / seed 1 / sentiment / finetune: not run, because pretrain "
    "failed",
    "baseline / seed 1 / similarity / finetune: not run, because pretrain "
    "failed",
    "half_as_long / seed 1 / sentiment / finetune: not run, because pretrain "
    "failed",
    "half_as_long / seed 1 / similarity / finetune: not run, because pretrain "
    "failed",
  )
  assert len(fake.trained) == 9
  assert f"failed: {outcome.failures[0].partition(': ')[2]}" in (
    capsys.readouterr().out
  )
  error = of(outcome, "baseline / seed 1 / pretrain").folder / "error.txt"
  assert "more detail" in error.read_text()
  assert "1 of 2 seeds" in (outcome.folder / "table.md").read_text()
  assert outcome.failures[0] in (outcome.folder / "table.md").read_text()
  assert "loss is NaN" in (outcome.folder / "report.html").read_text()

  fake.broken = lambda folder: False
  assert run_tiny(seeds=[0, 1]).failures == ()
  assert not error.exists()
  # What has been finished by its own command leaves the error where it is.
  error.write_text("loss is NaN")
  states = {run.state for run in results.read(outcome.folder).runs}
  assert states == {"finished"}


def test_the_users_own_mistake_reads_as_one_sentence(run_tiny, fake):
  def refuse(name):
    raise UserError("the folder belongs to another configuration")

  fake.call = refuse
  assert run_tiny(seeds=[0]).failures[0] == (
    "baseline / seed 0 / pretrain: the folder belongs to another configuration"
  )


def test_a_mistake_in_the_last_row_costs_no_training(run_tiny, fake):
  with pytest.raises(UserError) as error:
    run_tiny(("'TRAIN_STEPS=$(finetune_steps // 2)'", "'nowhere.gin'"))
  assert str(error.value) == (
    "row 'half_as_long', phase 'finetune', group 'sentiment': there is no gin "
    "file 'nowhere.gin'"
  )
  assert fake.trained == []


def test_stopping_is_not_a_failure_to_go_on_from(run_tiny, fake):
  def stop(name):
    raise SystemExit(75)

  fake.call = stop
  with pytest.raises(SystemExit):
    run_tiny(seeds=[0])
  assert gin.config_str() == ""


def test_data_folders_reach_the_tasks(run_tiny, fake, tmp_path, monkeypatch):
  monkeypatch.delenv("ZOO_DATA_DIR", raising=False)
  seen, call = set(), fake.call

  def look(name):
    seen.add(os.environ["ZOO_DATA_DIR"])
    return call(name)

  fake.call = look
  outcome = run_tiny(seeds=[0], data_dirs=[tmp_path / "a", tmp_path / "b"])
  assert seen == {f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}"}
  assert "ZOO_DATA_DIR" not in os.environ
  command = results.read(outcome.folder).command
  assert command.endswith(
    f"--data_dir={tmp_path / 'a'} --data_dir={tmp_path}/b"
  )


def test_runs_share_one_compilation_cache(run_tiny, fake):
  seen, call = [], fake.call

  def look(name):
    seen.append(jax.config.jax_compilation_cache_dir)
    return call(name)

  fake.call = look
  chosen = jax.config.jax_compilation_cache_dir
  jax.config.update("jax_compilation_cache_dir", None)
  try:
    outcome = run_tiny(seeds=[0])
    assert jax.config.jax_compilation_cache_dir is None
  finally:
    jax.config.update("jax_compilation_cache_dir", chosen)
  cache = outcome.folder.resolve().parent / ".compilation_cache"
  assert set(seen) == {str(cache)}

  seen.clear()
  jax.config.update("jax_compilation_cache_dir", "/nowhere/of/the/users")
  try:
    run_tiny(seeds=[1])
  finally:
    jax.config.update("jax_compilation_cache_dir", chosen)
  assert set(seen) == {"/nowhere/of/the/users"}


def test_a_run_can_be_started_alone(run_tiny):
  read = results.read(run_tiny(seeds=[0]).folder)
  assert re.fullmatch(
    r"zoo ablate \S+/tiny.gin --suite=\S+/two.gin --output_dir=\S+/runs "
    "--seeds=1",
    read.command,
  )
  pretrain, finetune = read.runs[:2]
  words = shlex.split(finetune.command)
  assert words == [
    *("zoo", "train", f"--gin_file={finetune.folder}/run.gin"),
    "--gin.RANDOM_SEED=0",
    f"--gin.MODEL_DIR='{finetune.folder}'",
    f"--gin.INITIAL_CHECKPOINT_PATH='{pretrain.folder}/checkpoints/40'",
  ]
  assert (finetune.folder / "run.gin").read_text() == (
    "TRAIN_STEPS = 20\nMIXTURE_OR_TASK_NAME = 'sentiment'\n"
  )


def test_seeds_that_no_command_can_name_are_told_in_python(run_tiny):
  read = results.read(run_tiny(seeds=[3, 5]).folder)
  assert read.command.startswith("run_study(")
  assert read.command.endswith("seeds=[3, 5])")


def test_a_folder_without_a_study(tmp_path):
  with pytest.raises(UserError) as error:
    results.read(tmp_path)
  assert str(error.value) == (
    f"{tmp_path} is not the folder of a study: it has no study.json"
  )


def test_a_damaged_result_is_named(run_tiny):
  outcome = run_tiny(seeds=[0])
  run = of(outcome, "baseline / seed 0 / sentiment / finetune")
  path = run.folder / "result.json"
  path.write_text("{")
  with pytest.raises(UserError, match="result.json cannot be read"):
    results.read(outcome.folder)
  path.write_text(json.dumps({}))
