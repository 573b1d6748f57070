"""The gin files of fine-tuning methods, with the files of a run."""

import re

import gin
import pytest

from tests import tiny_models
from transformer_zoo import config
from transformer_zoo.errors import UserError
from transformer_zoo.peft import method
from transformer_zoo.peft.trainable import ALL

RUN = ("architectures/t5_1_0.gin", "sizes/tiny.gin", "runs/finetune.gin")
BINDINGS = ("MODEL_DIR='run'", "MIXTURE_OR_TASK_NAME='task'", "TRAIN_STEPS=24")
# What goes before a method that is not after RUN.
BERT = ("architectures/bert.gin", "sizes/bert_tiny.gin", RUN[-1])
BEFORE = {
  "features": (*BERT, "heads/tags.gin"),
  "bilstm": (*BERT, "heads/tags.gin", "peft/features.gin"),
}
# What a method needs that no file names.
GIVEN = {
  "prompt_labels": (
    "PROMPT_LABELS=('positive', 'negative')",
    "PROMPT_VOCABULARY='tasks/miniature/vocabulary.model'",
  )
}
METHODS = sorted(path.stem for path in (tiny_models.GIN / "peft").glob("*.gin"))


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_named_after_a_run(name):
  bindings = [*BINDINGS, *GIVEN.get(name, ())]
  config.load([*BEFORE.get(name, RUN), f"peft/{name}.gin"], bindings)
  trainable = gin.get_bindings("train")["trainable"]
  assert trainable != ALL
  if name == "gradual_unfreezing":
    assert trainable.unfreezing.train_steps == 24


def test_a_finished_run_is_evaluated_and_fine_tuned_on(tmp_path):
  """Its config.gin names the model before; another may go around it."""
  config.load([*RUN, "peft/adapters.gin"], BINDINGS)
  written = tmp_path / "config.gin"
  written.write_text(config.operative_config())
  config.load([str(written)], [])
  assert config.operative_config() == written.read_text()
  config.load([str(written), "peft/gradual_unfreezing.gin"], [])


@pytest.mark.parametrize("after", [[], [RUN[0]]])
def test_adapters_named_before_the_architecture(after):
  """They would be dropped in silence."""
  with pytest.raises(UserError) as error:
    config.load(["peft/adapters.gin", *after], [], root="MODEL")
  assert re.fullmatch(
    r"\S+adapters.gin:\d+: substitute.model goes on from what MODEL was "
    r"before, so name \S+adapters.gin after all that bind MODEL: after the "
    r"files of the architecture and the run",
    str(error.value),
  )


def test_naming_the_file_twice_adapts_once():
  config.load([*RUN, *["peft/adapters.gin"] * 2], BINDINGS)
  assert "previous/MODEL = @EncoderDecoder()" in config.operative_config()


def test_a_file_that_binds_rules_and_parameters_itself(tmp_path):
  """As files did before METHODS, and a run's config.gin of then."""
  written = tmp_path / "both.gin"
  written.write_text(
    "include 'peft/lora.gin'\n"
    "substitute.rules = [@lora(), @biases()]\n"
    "biases.projections = '.*mlp/wi'\n"
    "Trainable.parameters = [r'.*/lora_[ab]', r'.*bias']\n"
    "InitialCheckpoint.assignments = ((r'.*/(lora_[ab]|bitfit_bias)', None),)\n"
  )
  config.load([*RUN, str(written)], BINDINGS)
  trainable = gin.get_bindings("train")["trainable"]
  assert trainable.parameters == [r".*/lora_[ab]", ".*bias"]
  rules = gin.get_bindings("substitute")["rules"]
  assert [rule.method.name for rule in rules] == ["lora", "biases"]
  assert config.call("InitialCheckpoint").fresh == ()


def test_a_rule_of_no_method_does_not_say_what_is_trained():
  with pytest.raises(UserError, match="METHODS has 1, which is no Rule of a M"):
    method.trained_parameters([1])
