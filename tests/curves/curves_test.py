"""Runs read while they grow, and what is drawn of them."""

import io
import json
import os
import re

import numpy as np
import pytest
import rich.console

from transformer_zoo.cli import main
from transformer_zoo.curves import runs
from transformer_zoo.curves import screen as screen_lib
from transformer_zoo.training.monitoring import recorder


def write(folder, steps, *, loss=lambda step: 1 / step):
  with recorder.Recorder(folder) as run:
    for step in steps:
      run.record(step, {"train/loss": loss(step)})
      run.timing(step, {"timing/tokens_per_second": 1000.0 * step})


@pytest.fixture
def run(tmp_path):
  return runs.Run(tmp_path / "run", "run")


def series(run, metric="train/loss"):
  run.update()
  return [array.tolist() for array in run.series(metric)]


def test_a_run_is_read_as_it_grows(run):
  assert series(run) == [[], []]
  assert run.state() == "not begun" and run.step == 0 and run.last("x") is None
  write(run.folder, [1, 2])
  assert series(run) == [[1, 2], [1, 0.5]]
  write(run.folder, [4])
  assert series(run) == [[1, 2, 4], [1, 0.5, 0.25]]
  assert run.step == 4 and run.last("timing/tokens_per_second") == 4000
  assert run.metrics == {"train/loss", "timing/tokens_per_second"}
  written = (run.folder / "timing.jsonl").stat().st_mtime
  assert run.state(now=written + 200) == "wrote 3 min ago"
  (run.folder / "result.json").touch()
  assert run.state() == "finished"


def test_a_torn_line_waits_for_its_rest(run):
  run.folder.mkdir()
  text = json.dumps({"step": 1, "train/loss": 2.5}) + "\n"
  for end in range(len(text) + 1):
    (run.folder / "metrics.jsonl").open("a").write(text[end - 1 : end])
    complete = end == len(text)
    assert series(run) == ([[1], [2.5]] if complete else [[], []])
  assert run.damaged == 0


def test_damaged_lines_are_passed_over_and_counted(run):
  run.folder.mkdir()
  (run.folder / "metrics.jsonl").write_bytes(
    b'{"step": 1, "a": 1}\n\xff\xfe\n[]\n{"a": 2}\n{"step": 3, "a": NaN}\n'
  )
  steps, values = series(run, "a")
  assert steps == [1, 3] and values[0] == 1 and np.isnan(values[1])
  assert run.damaged == 3


def test_a_run_that_resumed_has_only_what_it_kept(run):
  write(run.folder, [1, 2, 3, 4])
  assert series(run)[0] == [1, 2, 3, 4]
  with recorder.Recorder(run.folder) as again:
    again.truncate_after(2)
    assert series(run)[0] == [1, 2]
    again.record(3, {"train/loss": 7.0})
  assert series(run) == [[1, 2, 3], [1, 0.5, 7]]


def test_runs_are_found_below_a_study(tmp_path):
  for name in ("study/b", "study/a/seed_1", "study/a/seed_0"):
    write(tmp_path / name, [1])
  write(tmp_path / "study" / "b" / "checkpoints" / "no_run", [1])
  alone = tmp_path / "later"
  found = runs.find([tmp_path / "study", alone, tmp_path / "study" / "b"])
  assert [path.relative_to(tmp_path).as_posix() for path in found] == [
    *("study/a/seed_0", "study/a/seed_1", "study/b", "later")
  ]
  assert runs.names(found[:3]) == ["a/seed_0", "a/seed_1", "b"]
  assert runs.names([alone]) == ["later"]


def test_metrics_are_chosen_by_name_and_pattern():
  known = ["train/loss", "norm/b", "norm/a"]
  assert runs.choose(["norm/*", "train/loss", "norm/a"], known) == (
    ["norm/a", "norm/b", "train/loss"],
    [],
  )
  assert runs.choose(["trian/loss"], known) == (
    [],
    ["nothing is recorded of 'trian/loss'; did you mean 'train/loss'?"],
  )
  assert runs.choose(["a"], []) == ([], ["nothing is recorded of 'a'"])


def test_smoothing_is_a_mean_of_what_came_before():
  values = np.array([4.0, 2.0, np.nan, 1.0])
  assert np.array_equal(runs.smooth(values, 0.0), values, equal_nan=True)
  expected = [
    *(4.0, (0.25 * 4 + 0.5 * 2) / 0.75, np.nan),
    (0.125 * 4 + 0.25 * 2 + 0.5 * 1) / 0.875,
  ]
  np.testing.assert_allclose(runs.smooth(values, 0.5), expected)
  assert runs.smooth(np.full(1000, 3.0), 0.99)[[0, -1]] == pytest.approx(3.0)


def drawn(*curves, width=20, height=6, **keywords):
  """Draws curves: the lines above the axis, the labels beside and below it."""
  curves = [
    screen_lib.Curve(np.asarray(x, float), np.asarray(y, float), 1)
    for x, y in curves
  ]
  text = screen_lib.draw(curves, width=width, height=height, **keywords).plain
  *lines, _, steps = text.split("\n")
  assert max(map(len, lines)) <= width
  labels, plots = zip(*(re.split("[│┤]", line) for line in lines), strict=True)
  return plots, [label.strip() for label in labels if label.strip()], steps


def test_a_line_is_drawn_through_its_points():
  lines, labels, steps = drawn(([0, 10], [0, 1]))
  assert all(
    any(line[k] != " " for line in lines) for k in range(len(lines[0]))
  )
  assert lines[-1][0] != " " and lines[0][-1] != " ", "from corner to corner"
  assert labels == ["1", "0.5", "0"] and steps.split() == ["0", "step", "10"]


def test_no_spike_is_lost_among_many_points():
  values = np.zeros(100_000)
  values[54_321] = 1.0
  (top, *_), labels, _ = drawn((np.arange(100_000), values), width=60)
  assert labels[0] == "1" and len(top.split()) == 1
  place = len(top.rstrip()) / len(top)
  assert place == pytest.approx(0.54321, abs=2 / 60)


def test_what_cannot_be_drawn_is_left_out():
  values = [np.nan, 1.0, np.inf, 2.0]
  lines, labels, _ = drawn(([0, 1, 2, 3], values))
  assert labels == ["2", "1.5", "1"] and "".join(lines).strip()
  _, labels, _ = drawn(([0, 1, 2], [0.0, 1.0, 100.0]), log=True)
  assert labels == ["100", "10", "1"]
  empty = screen_lib.draw([], width=20, height=5)
  assert empty.plain.strip() == "no values yet"
  lines, labels, steps = drawn(([5], [3.0]))
  assert len("".join(lines).split()) == 1 and labels == ["3"]
  assert steps.split() == ["step", "5"]
  _, labels, _ = drawn(([0, 1, 2], [-1e299, 1e299, 1.5e308]))
  assert labels == ["1e+299", "0", "-1e+299"]


def test_curves_have_the_colours_of_their_runs(tmp_path):
  write(tmp_path / "a", [1, 2])
  write(tmp_path / "b", [1, 2], loss=lambda step: step)
  screen = screen_lib.Screen([tmp_path], screen_lib.View(["train/loss"]))
  screen.update()
  console = rich.console.Console(
    file=io.StringIO(), width=80, force_terminal=True, color_system="256"
  )
  console.print(screen.draw(80, 30))
  table, panel = console.file.getvalue().split("╭─", 1)
  for name, code in (("a", 36), ("b", 33)):
    assert f"\x1b[{code}m━ {name}" in table and f"\x1b[{code}m" in panel


def test_the_screen_shows_every_run_and_metric(tmp_path):
  write(tmp_path / "a", [1, 2])
  with recorder.Recorder(tmp_path / "a") as run:
    run.record(2, {"train/skipped_steps": 3})
  (tmp_path / "a" / "config.gin").write_text("TRAIN_STEPS = 20\n")
  view = screen_lib.View(["train/l*", "nothing"])
  screen = screen_lib.Screen([tmp_path / "a", tmp_path / "b"], view)
  screen.update()
  console = rich.console.Console(file=io.StringIO(), width=80)
  console.print(screen.draw(80, 30))
  text = console.file.getvalue()
  table, panels = text.split("╭─", 1)
  assert "━ a  step 2 of 20  wrote 0 s ago  loss 0.5  2,000 tokens/s" in table
  assert "━ b  step 0        not begun" in table and "3 steps skipped" in table
  assert "nothing is recorded of 'nothing'" in table
  assert panels.startswith(" train/loss ─") and "step 2" in panels
  assert max(map(len, text.splitlines())) <= 80


def test_it_ends_with_the_last_run_and_sees_new_ones(tmp_path, monkeypatch):
  """Live: what each pause brings is in the next drawing."""
  console = rich.console.Console(
    file=io.StringIO(), force_terminal=True, width=80, height=40
  )
  screen = screen_lib.Screen([tmp_path], screen_lib.View())
  pauses = iter(
    [
      lambda: write(tmp_path / "first", [1]),
      lambda: write(tmp_path / "second", [1, 2]),
      lambda: [
        (tmp_path / n / "result.json").touch() for n in os.listdir(tmp_path)
      ],
    ]
  )
  monkeypatch.setattr(screen_lib.time, "sleep", lambda seconds: next(pauses)())
  screen_lib.show_live(screen, console, 2.0)
  assert [run.name for run in screen.runs] == ["first", "second"]
  assert {run.state() for run in screen.runs} == {"finished"}
  assert next(pauses, None) is None


@pytest.mark.parametrize(
  "words, sentence",
  [
    (["--smooth", "1"], "--smooth is 1; it must be 0 or more and below 1"),
    (["--every", "0"], "--every is 0; it must be above 0"),
    (["gs://a/b"], "'gs://a/b' is a URL; copy its *.jsonl into a folder"),
    (
      ["--once", "--metric", "train/los"],
      "nothing is recorded of 'train/los'; did you mean 'train/loss'?",
    ),
  ],
)
def test_what_the_command_refuses(tmp_path, capsys, words, sentence):
  write(tmp_path, [1])
  assert main.main(["watch", str(tmp_path), *words]) == 2
  assert capsys.readouterr().err == f"zoo: error: {sentence}\n"


def test_the_command(tmp_path, capsys):
  assert main.main(["watch", str(tmp_path / "no"), "--once"]) == 2
  assert capsys.readouterr().err == (
    f"zoo: error: nothing is recorded in {tmp_path / 'no'} yet: give the "
    "folder of a run or a study; in a terminal and without --once, it is "
    "waited for\n"
  )
  write(tmp_path / "run", [1, 2])
  assert main.main(["watch", str(tmp_path / "run"), "--once"]) == 0
  assert "train/loss" in capsys.readouterr().out
  assert main.main(["watch", str(tmp_path / "run"), "--list"]) == 0
  assert capsys.readouterr().out == "timing/tokens_per_second\ntrain/loss\n"
