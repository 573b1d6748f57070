"""Runs of students: begun as layers of their teacher, saved without it."""

import json
import shutil

import numpy as np
import pytest

from tests.runs.train_test import leaves

FILE = "parts/distillation.gin"
TAUGHT = "TAUGHT_OBJECTIVE=@SequenceToSequence()"


@pytest.fixture
def teacher(train, tmp_path):
  folder = tmp_path / "teacher"
  layers = ("NUM_ENCODER_LAYERS=2", "NUM_DECODER_LAYERS=2")
  code, _, error = train(folder, "TRAIN_STEPS=1", *layers)
  assert code == 0, error
  return folder


@pytest.mark.slow
def test_a_student_is_taught_and_left_alone(train, teacher, zoo, tmp_path):
  start = f"INITIAL_CHECKPOINT_PATH={str(teacher)!r}"
  student = tmp_path / "student"
  arguments = student, "TRAIN_STEPS=2", "CHECKPOINT_PERIOD=1", start, TAUGHT
  code, output, error = train(*arguments, files=[FILE])
  assert code == 0, error
  assert "fresh" not in output
  before = leaves(teacher / "checkpoints" / "1")
  after = leaves(student / "checkpoints" / "2")
  assert not any("teacher" in name for name in after)
  metrics = (student / "metrics.jsonl").read_text()
  assert "train/tokens/loss" in metrics
  assert "train/distilled_logits/loss" in metrics
  assert "train/distilled_hidden/loss" in metrics
  # The only layer is in the second half of the teacher's two: the other one.
  kernel = "params/encoder/layers_{}/mlp/wi_0/kernel"
  changes = [
    np.abs(after[kernel.format(0)] - before[kernel.format(layer)]).mean()
    for layer in (0, 1)
  ]
  assert changes[1] < 0.5 * changes[0]
  # It resumes with its teacher, and is used without.
  (student / "result.json").unlink()
  shutil.rmtree(student / "checkpoints" / "2")
  code, _, error = train(*arguments, files=[FILE])
  assert code == 0, error
  again = leaves(student / "checkpoints" / "2")
  np.testing.assert_array_equal(
    again[kernel.format(0)], after[kernel.format(0)]
  )
  shutil.rmtree(teacher)
  code, output, error = zoo(
    "evaluate", f"--checkpoint={student}", "--mixture=colours"
  )
  assert code == 0, error
  code, output, error = zoo(
    "infer", f"--checkpoint={student}", "--json", "green car sees"
  )
  assert code == 0, error
  answer = json.loads(output)
  # What a task of answers, `from_jsonl`, reads: sequence-level distillation.
  assert answer["inputs"] == "green car sees" and "prediction" in answer
  code, output, error = train(
    tmp_path / "finetuned",
    "TRAIN_STEPS=1",
    f"INITIAL_CHECKPOINT_PATH={str(student)!r}",
  )
  assert code == 0, error


@pytest.mark.slow
def test_a_student_may_begin_anew(train, teacher, tmp_path):
  code, output, error = train(
    tmp_path / "student",
    "TRAIN_STEPS=1",
    f"INITIAL_CHECKPOINT_PATH={str(teacher)!r}",
    "layers_of_teacher.fresh=True",
    "TEACHER=@teacher_like()",
    "teacher_like.model=%MODEL",
    "teacher_like.num_layers=2",
    TAUGHT,
    files=[FILE],
  )
  assert code == 0, error
  assert "fresh: encoder/layers_0/mlp/wi_0/kernel" in output


def test_a_run_without_a_teacher_is_refused(train, tmp_path):
  code, _, error = train(tmp_path / "run", TAUGHT, files=[FILE])
  assert code == 2
  assert "INITIAL_CHECKPOINT_PATH is None; it names the teacher" in error
