"""Programs that runs of one process share."""

import gin
import pytest

from transformer_zoo import config
from transformer_zoo.objectives import sequence_to_sequence as objective
from transformer_zoo.runs import reuse
from transformer_zoo.runs import settings
from transformer_zoo.training.monitoring import recorder

BASE = ("MODEL_DIR='run'", "MIXTURE_OR_TASK_NAME='colours'", "NUM_HEADS=2")
FILES = ("architectures/t5_1_1.gin", "sizes/tiny.gin", "runs/finetune.gin")
GROUPS = (settings.Step, settings.Examples, settings.Evaluation)
AGAIN = "the programs of a run before this one are used again"


@pytest.fixture
def made():
  """Returns a function that gives the program of a configuration.

  Programs are numbers in the order in which they are made.
  """
  numbers = []

  def make():
    numbers.append(len(numbers))
    return numbers[-1]

  def of(*bindings, **keywords):
    config.load(FILES, [*BASE, *bindings])
    return reuse.shared(make, groups=GROUPS, **keywords)

  yield of
  gin.clear_config()


def test_runs_that_differ_in_data_seed_and_place_share_a_program(made):
  with reuse.reused():
    assert made() == 0
    assert made("MODEL_DIR='other'", "RANDOM_SEED=1") == 0
    assert made("MIXTURE_OR_TASK_NAME='another'", "TRAIN_STEPS=7") == 0
    assert made("INITIAL_CHECKPOINT_PATH='run'", "EVAL_PERIOD=0") == 0


@pytest.mark.parametrize(
  "binding",
  [
    "DROPOUT_RATE=0.5",
    "MLP_DIM=64",
    "LEARNING_RATE=0.1",
    "SequenceToSequence.z_loss=0.0",
    "BATCH_SIZE=4",
    "TASK_FEATURE_LENGTHS={'inputs': 8, 'targets': 4}",
    "DecodingOptions.num_beams=2",
    "NUM_MICROBATCHES=2",
    "Watching.norms='layers'",
    "adafactor.state_dtype='bfloat16'",
  ],
)
def test_what_a_program_is_made_of_tells_runs_apart(made, binding):
  with reuse.reused():
    assert made() == 0
    assert made(binding) == 1
    assert made() == 0


def test_a_schedule_that_follows_the_steps_is_another(made):
  follows = "schedules.constant.learning_rate=%TRAIN_STEPS"
  with reuse.reused():
    assert made(follows, "TRAIN_STEPS=7") == 0
    assert made(follows, "TRAIN_STEPS=8") == 1


def test_what_a_program_knows_besides_tells_runs_apart(made):
  with reuse.reused():
    assert made(knows="one vocabulary") == 0
    assert made(knows="another") == 1
    assert made(knows="one vocabulary") == 0


def test_nothing_is_kept_outside_and_not_too_much_inside(made, monkeypatch):
  monkeypatch.setattr(reuse, "_programs", None)
  assert [made(), made()] == [0, 1]
  with reuse.reused():
    assert [made(knows=number) for number in range(17)] == [*range(2, 19)]
    assert made(knows=16) == 18
    assert made(knows=0) == 19
  assert made(knows=16) == 20


@pytest.mark.slow
def test_a_run_with_the_programs_of_another_is_the_same_run(
  train, tmp_path, monkeypatch
):
  traced = []
  loss_of = objective._of_tokens
  monkeypatch.setattr(
    objective,
    "_of_tokens",
    lambda *arguments, **options: (
      traced.append(1) or loss_of(*arguments, **options)
    ),
  )

  def run(name, *overrides):
    before = len(traced)
    folder = tmp_path / name
    code, output, error = train(
      folder, "TRAIN_STEPS=4", "CHECKPOINT_PERIOD=4", *overrides
    )
    assert code == 0, error
    lines = recorder.read_lines(folder / recorder.METRICS_FILE)
    return lines, AGAIN in output, len(traced) - before

  with reuse.reused():
    lines, told, anew = run("first")
    assert anew and not told
    assert run("again") == (lines, True, 0)
    start = f"INITIAL_CHECKPOINT_PATH={str(tmp_path / 'first')!r}"
    further, *_, traced_again = run("further", start, "RANDOM_SEED=1")
  assert further != lines and not traced_again
