"""Settings of a training run: one definition that everything else reads."""

import dataclasses
import inspect

import gin
import pytest

from transformer_zoo import config
from transformer_zoo import effects
from transformer_zoo.config import registry
from transformer_zoo.data.mixing import Equal
from transformer_zoo.errors import UserError
from transformer_zoo.runs import settings

FILES = ("architectures/t5_1_1.gin", "sizes/tiny.gin", "runs/finetune.gin")
BASE = ("MODEL_DIR='run'", "MIXTURE_OR_TASK_NAME='colours'")
GROUPS = [group.type for group in dataclasses.fields(settings.Run)]
FIELDS = [
  (group, field) for group in GROUPS for field in dataclasses.fields(group)
]


@pytest.fixture
def load():
  yield lambda *bindings, files=FILES: config.load(files, [*BASE, *bindings])
  gin.clear_config()


def test_every_setting_has_one_name_and_a_mark():
  names = [field.name for _, field in FIELDS]
  assert len(names) == len({*names})
  for _, field in FIELDS:
    assert effects.marked(field.type) is not None, field.name


def test_train_has_the_settings_of_all_groups_as_parameters():
  train = inspect.signature(registry.find("train", "here").wrapped)
  assert [*train.parameters] == [field.name for _, field in FIELDS]


def test_bindings_of_train_reach_the_field_of_their_name(load):
  load(
    "train.packing=False",
    "train.evaluation_batch_size=8",
    "train.rates=@Equal()",
    "FSDP=2",
  )
  run = settings.Run.of_loaded()
  assert run.examples.packing is False and run.data.rates == Equal()
  assert run.evaluation.evaluation_batch_size == 8
  assert run.step.partitioning.fsdp == 2
  changed = run.replace(batch_size=6, packing=True)
  assert (changed.step.batch_size, changed.examples.packing) == (6, True)
  assert changed.course == run.course


def test_a_misspelt_setting_is_named(load):
  with pytest.raises(UserError, match="train has no parameter 'pakcing'; did"):
    load("train.pakcing=False")


def test_a_value_of_the_wrong_type_is_named(load):
  with pytest.raises(UserError, match="train.packing must be bool and is 3"):
    load("train.packing=3")


def test_a_written_configuration_reads_as_before(load, tmp_path):
  load("train.packing=False", "train.rates=@Equal()")
  text = config.operative_config("train")
  assert "train.packing = False\n" in text and "Data" not in text
  file = tmp_path / "config.gin"
  file.write_text(text)
  config.load([str(file)])
  assert config.operative_config("train") == text


def test_an_objective_is_no_function(load):
  load("train.objective=@fitting_lengths")
  with pytest.raises(UserError) as caught:
    settings.Run.of_loaded()
  assert str(caught.value).startswith(
    "train.objective is fitting_lengths, which is no instance of Objective "
  )


def test_a_configuration_with_an_earlier_name_is_the_same(load):
  load("SequenceToSequence.z_loss = 0.0")
  text = config.operative_config("train")
  before = text.replace("@SequenceToSequence()", "@sequence_to_sequence")
  before = before.replace("SequenceToSequence.", "sequence_to_sequence.")
  assert before != text and config.difference(before, text) == ""


def test_a_configuration_without_a_later_macro_is_the_same(load):
  load()
  text = config.operative_config("train")
  before = (
    "\n".join(
      line for line in text.splitlines() if "EVAL_MAX_EXAMPLES" not in line
    )
    + "\n# train.evaluation_max_examples = None\n"
  )
  assert config.difference(before, text) == ""
  load("EVAL_MAX_EXAMPLES=4")
  assert config.difference(before, config.operative_config("train")) == (
    "train.evaluation_max_examples was unset and is %EVAL_MAX_EXAMPLES"
  )


@pytest.mark.parametrize(
  "binding, layout",
  [
    ("FSDP=2", True),
    ("SCAN_LAYERS=True", True),
    ("NUM_MICROBATCHES=2", True),
    ("ON_NOT_FINITE='skip'", True),
    ("Checkpointing.newest=3", True),
    ("Checkpointing.folder='there'", False),
    ("NORMS='layers'", False),
    ("RANDOM_SEED=1", False),
    ("INITIAL_CHECKPOINT_PATH='there'", False),
    ("NUM_WORKERS=2", None),
    ("PROFILE='1:2'", None),
    ("WRITERS=[@MlFlow()]", None),
    ("PREPARED_DIR='there'", None),
  ],
)
def test_what_a_binding_affects(load, binding, layout):
  load()
  before = config.operative_config("train")
  load(binding)
  after = config.operative_config("train")
  assert bool(config.difference(before, after, layout=True)) == (layout is True)
  assert bool(config.difference(before, after, layout=False)) == (
    layout is False
  )


@pytest.mark.parametrize(
  "binding, sentence",
  [
    ("BATCH_SIZE=0", "BATCH_SIZE=0 must be at least 1"),
    ("NUM_MICROBATCHES=0", "NUM_MICROBATCHES=0 must be at least 1"),
    ("TRAIN_STEPS=-1", "TRAIN_STEPS=-1 must be at least 1"),
    ("NUM_WORKERS=-1", "NUM_WORKERS=-1 must be at least 0"),
    ("STATIC_COPIES=0", "STATIC_COPIES=0 must be at least 1"),
    ("MAX_TOKENS=0", "MAX_TOKENS=0 must be at least 1"),
    ("EVAL_MAX_EXAMPLES=0", "EVAL_MAX_EXAMPLES=0 must be at least 1"),
    (
      "train.evaluation_batch_size=0",
      "evaluation_batch_size=0 must be at least 1",
    ),
    ("RANDOM_SEED=-1", "RANDOM_SEED=-1 must be from 0 to 4294967295"),
    ("PREPARED_DIR=''", "PREPARED_DIR is '', which names no folder"),
  ],
)
def test_what_is_wrong_by_itself_is_refused_before_data_is_prepared(
  load, monkeypatch, binding, sentence
):
  def prepare(*_):
    raise AssertionError("data was prepared")

  monkeypatch.setattr("transformer_zoo.runs.inputs.prepared", prepare)
  load(binding)
  with pytest.raises(UserError) as caught:
    config.call("train")
  assert str(caught.value) == sentence
