"""Lengths that follow from the objective, as a study binds them."""

import gin
import pytest

from transformer_zoo import config
from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import Iid
from transformer_zoo.errors import UserError
from transformer_zoo.runs.inputs import fitting_lengths

FILES = [
  "architectures/t5_1_0.gin",
  "sizes/miniature.gin",
  "runs/pretrain.gin",
]
BINDINGS = [
  "MODEL_DIR='run'",
  "MIXTURE_OR_TASK_NAME='task'",
  "TASK_FEATURE_LENGTHS=@fitting_lengths()",
  "fitting_lengths.corruption=%CORRUPTION",
]


def bound(objective, inputs, files=FILES):
  """The lengths that a run gets after the file of an objective."""
  files = [*files, f"objectives/{objective}.gin"]
  try:
    config.load(files, [*BINDINGS, f"fitting_lengths.inputs={inputs}"])
    return gin.get_bindings("train")["task_feature_lengths"]
  finally:
    gin.clear_config()


@pytest.mark.parametrize(
  "objective, targets",
  [
    ("span_3", 114),  # that of objectives/span_3.gin
    ("span_10", 99),
    ("bert_style", 512),
    ("deshuffling", 512),
    ("bart_text_infilling", 512),
    ("mass", 257),
  ],
)
def test_lengths_of_the_objectives_own_files(objective, targets):
  lengths = {"inputs": 512, "targets": targets}
  assert bound(objective, 512) == lengths


def test_a_language_model_has_no_inputs():
  assert bound("lm", 64) == {"inputs": 1, "targets": 64}


def test_an_encoder_has_one_length():
  files = ["architectures/bert.gin", "sizes/bert_tiny.gin", FILES[-1]]
  assert bound("bert", 64, files) == {"inputs": 64, "targets": 64}


def test_other_tasks_of_the_mixture_may_need_more():
  lengths = fitting_lengths(Denoising(Iid(0.1)), 32, targets=40)
  assert lengths == {"inputs": 32, "targets": 40}


def test_what_cannot_be_found():
  with pytest.raises(UserError, match="no corruption to find lengths for; na"):
    fitting_lengths(None, 64)
  with pytest.raises(UserError, match="inputs is '64'; it must be a number"):
    fitting_lengths(Denoising(Iid()), "64")
  with pytest.raises(UserError, match="Inputs of 2 tokens are too short for I"):
    fitting_lengths(Denoising(Iid()), 2)
