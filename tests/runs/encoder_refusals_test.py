"""Bad input of encoders: one sentence before anything is compiled."""

import pytest

from tests import prepared_forms

GIN = """
include 'architectures/bert.gin'
include 'sizes/bert_tiny.gin'
include 'runs/finetune.gin'
include 'heads/classes.gin'

VOCAB_SIZE = 64
MAX_POSITIONS = 32
MIXTURE_OR_TASK_NAME = 'colours'
TASK_FEATURE_LENGTHS = {'inputs': 16}
NUM_CLASSES = 3
TRAIN_STEPS = 2
BATCH_SIZE = 8
"""


@pytest.fixture
def refused(zoo, prepared_dir, tmp_path, monkeypatch):
  """Returns a function that trains and returns the sentence it refuses with."""

  def no_compilation(*arguments):
    raise AssertionError("a run with bad input came to its first step")

  monkeypatch.setattr("transformer_zoo.training.loop.train", no_compilation)
  file = tmp_path / "encoder.gin"
  prepared_forms.write_classes(prepared_dir / "vocabularies", tmp_path)
  file.write_text(f"{GIN}PREPARED_DIR = {str(tmp_path)!r}\n")

  def call(*overrides, files=()) -> str:
    code, _, error = zoo(
      "train",
      *(f"--gin_file={name}" for name in (file, *files)),
      f"--gin.MODEL_DIR={str(tmp_path / 'run')!r}",
      *(f"--gin.{text}" for text in overrides),
    )
    assert code == 2, error
    assert error.startswith("zoo: error: ") and error.count("\n") == 1
    assert not (tmp_path / "run" / "config.gin").exists()
    return error.removeprefix("zoo: error: ").strip()

  return call


@pytest.mark.parametrize(
  ("override", "sentence"),
  [
    (
      "EncoderObjective.losses=(@SpanLoss(),)",
      "the model has no head 'spans'; it has 'classes': choose heads and "
      "objective by one file of gin_configs/heads/, after the file of the run",
    ),
    (
      "TASK_FEATURE_LENGTHS={'inputs': 33}",
      "a sequence of 33 tokens has no learned position beyond "
      "LearnedPositions.num_positions=32; shorten TASK_FEATURE_LENGTHS or "
      "raise num_positions",
    ),
    (
      "TokenTypeEmbed.num_types=1",
      "the converter lays out 2 types of tokens but TokenTypeEmbed has 1 "
      "rows; set TokenTypeEmbed.num_types to 2, or EncoderFeatures.token_types "
      "to False",
    ),
    (
      "NUM_CLASSES=2",
      "task 'colours' has the 3 classes red, green, blue but the head "
      "'classes' of the model has 2; set NUM_CLASSES to 3",
    ),
    (
      "EncoderFeatures.form='number'",
      "Nothing named 'colours:number' is prepared in 'FOLDER'; run `zoo "
      "prepare` first; 'colours' is prepared in 'classes' of the forms",
    ),
  ],
)
def test_what_does_not_fit(refused, override, sentence, tmp_path):
  assert refused(override) == sentence.replace("FOLDER", str(tmp_path))


def test_a_vocabulary_without_a_mask(refused, tmp_path):
  prepared_forms.write_text(tmp_path)
  found = refused("MIXTURE_OR_TASK_NAME='text'", files=["objectives/bert.gin"])
  assert found == (
    "Replacement hides tokens behind a mask, and the vocabulary has neither a "
    "mask token nor sentinels; use one that has, or give it extra_ids."
  )
