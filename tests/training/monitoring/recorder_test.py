"""Records of a run: bytes, resumption, TensorBoard, progress, environment."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
import rich.console
from tensorboard.backend.event_processing import event_accumulator

from transformer_zoo import environment
from transformer_zoo.errors import UserError
from transformer_zoo.training.monitoring import progress
from transformer_zoo.training.monitoring import recorder


def _steps(path):
  return [line["step"] for line in recorder.read_lines(path)]


def _tensorboard(folder, tag):
  events = event_accumulator.EventAccumulator(str(folder / "tensorboard"))
  events.Reload()
  return [(scalar.step, scalar.value) for scalar in events.Scalars(tag)]


def test_values_keep_all_their_digits(tmp_path):
  value = np.float32(0.1)
  with recorder.Recorder(tmp_path) as run:
    run.record(3, {"train/loss": value, "train/third": 1 / 3})
  text = (tmp_path / "metrics.jsonl").read_text()
  assert text == (
    '{"step": 3, "train/loss": 0.10000000149011612, '
    '"train/third": 0.3333333333333333}\n'
  )


def test_metrics_and_timing_are_kept_apart(tmp_path):
  with recorder.Recorder(tmp_path) as run:
    run.record(1, {"train/loss": 2.0})
    run.timing(1, {"timing/tokens_per_second": 100.0})
  assert "tokens" not in (tmp_path / "metrics.jsonl").read_text()
  assert _steps(tmp_path / "timing.jsonl") == [1]


def test_a_line_is_on_disk_before_the_call_returns(tmp_path):
  run = recorder.Recorder(tmp_path)
  run.record(1, {"train/loss": 2.0})
  assert _steps(tmp_path / "metrics.jsonl") == [1]
  assert _tensorboard(tmp_path, "train/loss") == [(1, 2.0)]
  run.close()
  run.close()


def test_a_resumed_run_writes_the_bytes_of_an_uninterrupted_one(tmp_path):
  def record(run, steps):
    for step in steps:
      run.record(step, {"train/loss": 1 / step})
      run.timing(step, {"timing/seconds": 0.5})

  with recorder.Recorder(tmp_path / "whole") as run:
    record(run, range(1, 9))
  with recorder.Recorder(tmp_path / "killed") as run:
    record(run, range(1, 7))
  with recorder.Recorder(tmp_path / "killed") as run:
    run.truncate_after(4)
    record(run, range(5, 9))

  whole = (tmp_path / "whole" / "metrics.jsonl").read_bytes()
  assert (tmp_path / "killed" / "metrics.jsonl").read_bytes() == whole
  assert _steps(tmp_path / "killed" / "timing.jsonl") == list(range(1, 9))
  assert [s for s, _ in _tensorboard(tmp_path / "killed", "train/loss")] == (
    list(range(1, 9))
  )


@pytest.mark.parametrize("torn", ['{"step": 2, "train/lo', "{", '{"step": 2}'])
def test_a_torn_last_line_is_dropped(tmp_path, torn):
  path = tmp_path / "metrics.jsonl"
  path.write_text('{"step": 1, "train/loss": 2.0}\n' + torn)
  assert _steps(path) == [1]
  with recorder.Recorder(tmp_path) as run:
    run.record(2, {"train/loss": 1.0})
  assert _steps(path) == [1, 2]


def test_a_full_disk_ends_with_one_sentence(tmp_path):
  with pytest.raises(UserError) as caught, recorder.Recorder(tmp_path) as run:
    run.record(1, {"train/loss": 2.0})
    run._files["metrics.jsonl"] = open("/dev/full", "a")
    run.record(2, {"train/loss": 1.0})
  assert str(caught.value) == (
    f"{tmp_path / 'metrics.jsonl'} cannot be written (No space left on device)"
    "; the same command goes on from the last checkpoint when it can"
  )
  with recorder.Recorder(tmp_path) as run:
    run.record(2, {"train/loss": 1.0})
  assert _steps(tmp_path / "metrics.jsonl") == [1, 2]


def test_truncating_everything_leaves_empty_files(tmp_path):
  with recorder.Recorder(tmp_path) as run:
    run.record(0, {"validation/loss": 2.0})
    run.truncate_after(-1)
  assert (tmp_path / "metrics.jsonl").read_bytes() == b""
  assert not list(tmp_path.glob("*.new"))


def test_damage_before_the_last_line_names_the_line(tmp_path):
  path = tmp_path / "metrics.jsonl"
  path.write_text('{"step": 1}\ngarbage\n{"step": 2}\n')
  with pytest.raises(UserError) as error:
    recorder.Recorder(tmp_path)
  assert str(error.value) == (
    f"{path}, line 2 is not a JSON object with a step: 'garbage'; "
    "mend or remove the line"
  )


def test_not_a_number_can_be_recorded_and_read(tmp_path):
  with recorder.Recorder(tmp_path) as run:
    run.record(1, {"train/loss": float("nan")})
  (line,) = recorder.read_lines(tmp_path / "metrics.jsonl")
  assert np.isnan(line["train/loss"])


def test_recording_imports_no_tensorflow(tmp_path):
  program = f"""
import sys
class Refuse:
  def find_spec(self, name, path=None, target=None):
    if name.split(".")[0] in ("tensorflow", "seqio"):
      raise AssertionError(name + " was imported")
sys.meta_path.insert(0, Refuse())
from transformer_zoo.training.monitoring import recorder
with recorder.Recorder({str(tmp_path)!r}) as run:
  run.record(1, {{"train/loss": 2.0}})
  run.truncate_after(0)
assert not {{"tensorflow", "seqio"}} & set(sys.modules)
"""
  subprocess.run([sys.executable, "-c", program], check=True)


def _progress(*, terminal, **options):
  text = io.StringIO()
  console = rich.console.Console(
    file=text, force_terminal=terminal, width=100, highlight=False
  )
  seconds = 0
  shown = progress.Progress(
    first_step=100,
    last_step=110,
    name="[a] finetune",
    every_seconds=10,
    console=console,
    clock=lambda: seconds,
    **options,
  )
  with shown:
    for step in range(101, 111):
      seconds += 4
      shown.update(step, loss=2.5, tokens_per_second=12345.6)
    shown.note("[done]")
  return text.getvalue()


def test_plain_progress_is_a_line_every_few_seconds():
  assert _progress(terminal=False).splitlines() == [
    "[a] finetune: step 101/110  loss 2.500  12,346 tokens/s",
    "[a] finetune: step 104/110  loss 2.500  12,346 tokens/s  24 s left",
    "[a] finetune: step 107/110  loss 2.500  12,346 tokens/s  12 s left",
    "[a] finetune: step 110/110  loss 2.500  12,346 tokens/s  0 s left",
    "[done]",
  ]


def test_plain_progress_has_the_steps_that_are_logged():
  lines = _progress(terminal=False, every_steps=2).splitlines()
  steps = [line.split()[3] for line in lines[:-1]]
  assert steps == [f"{n}/110" for n in (101, 102, 104, 106, 108, 110)]


def test_the_time_left_does_not_extrapolate_the_first_steps():
  text = io.StringIO()
  seconds = 0
  shown = progress.Progress(
    first_step=0,
    last_step=10,
    every_seconds=0,
    console=rich.console.Console(file=text, width=100),
    clock=lambda: seconds,
  )
  # Compilation, then a step a second.
  for step, second in enumerate((0, 60, 61, 62)):
    seconds = second
    shown.update(step)
  assert text.getvalue().splitlines() == [
    "training: step 0/10",
    "training: step 1/10",
    "training: step 2/10  8 s left",
    "training: step 3/10  7 s left",
  ]


def test_progress_on_a_terminal_shows_the_same_numbers():
  text = _progress(terminal=True)
  assert "step 110/110  loss 2.500  12,346 tokens/s  0 s left" in text
  assert "[a] finetune" in text
  assert "[done]" in text


@pytest.mark.parametrize(
  "seconds, words",
  [
    (0.4, "0 s"),
    (59.6, "1 min 00 s"),
    (185, "3 min 05 s"),
    (7800, "2 h 10 min"),
  ],
)
def test_duration_in_words(seconds, words):
  assert progress.duration(seconds) == words


def test_environment_is_json_with_what_a_result_depends_on(tmp_path):
  environment.write_environment(tmp_path / "environment.json")
  read = json.loads((tmp_path / "environment.json").read_text())
  assert read["packages"]["jax"]
  assert read["devices"]["count"] >= 1
  assert read["cpu_count"] >= 1 and "processor" in read
  assert read["git"] is None or len(read["git"]["commit"]) == 40


def test_a_package_outside_a_checkout_has_no_commit(tmp_path):
  file = tmp_path / "package.py"
  file.write_text("")
  assert environment._git(file) is None
  subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
  assert environment._git(file) is None
