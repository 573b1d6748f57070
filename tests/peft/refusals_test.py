"""Refusals in one sentence, before anything is compiled."""

import re

import gin
import jax
import numpy as np
import pytest

from tests.peft import methods_test as methods
from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import prompts as prompted
from transformer_zoo.errors import UserError
from transformer_zoo.peft import lora
from transformer_zoo.peft import prompts
from transformer_zoo.peft import substitution
from transformer_zoo.training import state as state_lib


@pytest.fixture(autouse=True)
def clean():
  yield
  gin.clear_config()


def sentence(make, *arguments, **keywords) -> str:
  with pytest.raises(UserError) as error:
    make(*arguments, **keywords)
  return str(error.value).splitlines()[0]


@pytest.mark.parametrize(
  ("method", "macro", "value", "method_name"),
  [
    ("lora", "LORA_PROJECTIONS", "decoder/attn/q", "lora"),
    ("dora", "LORA_PROJECTIONS", "decoder/attn/q", "dora"),
    ("prefix", "PREFIX_ATTENTIONS", "decoder/attn", "prefix"),
  ],
)
def test_an_expression_that_matches_nothing(method, macro, value, method_name):
  said = sentence(methods.build, method, "t5_1_1", **{macro: value})
  assert re.fullmatch(
    rf"substitute: {method_name} finds no part to replace in the model, "
    rf"EncoderDecoder; '{value}' matches \(as a whole\) none.*",
    said,
  )


def test_an_expression_that_is_none():
  said = sentence(methods.build, "lora", "t5_1_1", LORA_PROJECTIONS="(")
  assert said.startswith("'(' is no regular expression over names of parts: ")


def test_a_method_twice_on_one_projection():
  model, _ = methods.build("lora", "bert")
  rule = lora.lora(".*/(key|query)")
  assert sentence(substitution.substitute, model, [rule]) == (
    "substitute: a rule extends LoraLinear by Lora a second time; name the "
    "method once, or choose other projections for the second one"
  )


def test_a_rank_above_the_width():
  model, _ = methods.build("lora", "gpt_2", LORA_RANK=25)
  said = sentence(state_lib.abstract_params, model)
  assert said == (
    "the rank 25 of lora is above the width of "
    "decoder/layers_0/self_attention/query, a matrix of 24 by 32; choose "
    "LORA_RANK of at most 24"
  )
  assert sentence(lora.lora, ".*", rank=0) == (
    "lora.rank is 0; a rank is at least 1"
  )


@pytest.mark.parametrize("method", ["prefix", "p_tuning_v2"])
def test_a_prefix_longer_than_the_positions(method):
  model, _ = methods.build(method, "bert", PREFIX_LENGTH=30, MAX_POSITIONS=32)
  batch = {"encoder_input_tokens": np.ones((1, 4), np.int32)}
  params = state_lib.abstract_params(model)
  said = sentence(
    jax.eval_shape,
    lambda params: model.apply({"params": params}, batch, method="hidden"),
    params,
  )
  assert said == (
    "a prefix of 30 and rows of 4 tokens need 34 positions, but "
    "LearnedPositions.num_positions is 32; shorten PREFIX_LENGTH or "
    "TASK_FEATURE_LENGTHS"
  )


def test_a_prompt_of_no_vectors_or_twice():
  of = converters.EncoderDecoder()
  assert sentence(prompted.prompted, of, 0) == (
    "PROMPT_LENGTH is 0; a prompt has 1 vector or more"
  )
  said = sentence(prompted.prompted, prompted.prompted(of, 2), 2)
  assert said.startswith("prompted_features.of is EncoderDecoder; a prompt ")


def test_a_prompt_before_several_texts_of_one_example():
  converter = prompted.prompted(converters.LanguageModel(), 2)
  tokens = Ragged.of([np.arange(4)])
  with pytest.raises(UserError, match="a prompt precedes whole examples"):
    converter(
      {"targets": tokens, "segment_lengths": Ragged.of([np.array([2, 2])])},
      np.zeros(1, int),
      num_rows=1,
      lengths={"targets": 8},
      packing=True,
      pad_id=0,
    )


def test_a_prompt_of_class_labels_without_labels():
  said = sentence(methods.build, "prompt_labels", "t5_1_1")
  assert said == (
    "prompt_ids.of_labels.labels is empty: a prompt of class labels needs the "
    "target texts of the task, as PROMPT_LABELS = ('negative', 'positive')"
  )
  said = sentence(prompts.of_labels, 1, ["a", "b"], "vocabulary")
  assert said == (
    "prompt_ids.of_labels.labels has 2 texts and PROMPT_LENGTH is 1; a prompt "
    "is at least as long"
  )
