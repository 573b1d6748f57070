"""Directories of encoders become runs, and runs directories."""

import json

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_models
from tests.golden import encoders
from tests.golden import families
from transformer_zoo import config as zoo_config
from transformer_zoo.interop.conversion import exported_directory
from transformer_zoo.interop.conversion.convert import convert
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.interop.tensors.lazy_tensors import Tensor
from transformer_zoo.modules import comparison

FILES = ("model.safetensors", "config.json")


def weights(model) -> dict[str, Tensor]:
  flat = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  return {name: Tensor.of(array) for name, array in flat.items()}


def write(folder, config):
  folder.mkdir()
  parameters = weights(families.build(config))
  writing.write_directory(
    folder, family_of(config), config, parameters, generation=None
  )
  return parameters


@pytest.mark.parametrize(
  "name",
  ["bert_pre_training", "roberta_zero_types", "distilbert_classes"],
)
def test_there_and_back_changes_no_byte(name, tmp_path):
  theirs, run, back = (tmp_path / part for part in ("theirs", "run", "back"))
  write(theirs, encoders.CONFIGS[name])
  convert(theirs, run, report=lambda line: None)
  model = zoo_config.build("MODEL", [str(run / "config.gin")])
  expected = families.build(encoders.CONFIGS[name])
  assert not comparison.differences(model, expected)
  convert(run, back, report=lambda line: None)
  assert {path.name for path in back.iterdir()} == {*FILES}
  for file in FILES:
    assert (back / file).read_bytes() == (theirs / file).read_bytes(), file


def test_a_converted_roberta_reads_pairs_as_roberta(tmp_path):
  """<s> a </s></s> b </s>, one type of tokens, and the lengths that it has."""
  theirs, run = tmp_path / "theirs", tmp_path / "run"
  write(theirs, encoders.CONFIGS["roberta_classes"])
  convert(theirs, run, report=lambda line: None)
  files = [str(run / "config.gin")]
  converter = zoo_config.build("CONVERTER", files)
  assert (converter.separators, converter.form) == (2, "classes")
  lengths = zoo_config.build("TASK_FEATURE_LENGTHS", files)
  assert lengths == {"inputs": 27, "targets": 27}


def test_more_positions_and_tokens(tmp_path):
  theirs, back = tmp_path / "theirs", tmp_path / "back"
  before = write(theirs, encoders.CONFIGS["roberta_masked"])
  convert(
    theirs,
    back,
    to="huggingface",
    vocabulary_size=50,
    positions=40,
    report=lambda line: None,
  )
  config = json.loads((back / "config.json").read_text())
  assert (config["vocab_size"], config["max_position_embeddings"]) == (50, 42)
  found = directory.open_directory(back).parameters()
  table = "encoder/position_embedder/pos_embedding"
  np.testing.assert_array_equal(found[table].read()[:29], before[table].read())
  assert found["heads/tokens/logits_bias"].shape == (50,)


def test_a_pooler_that_no_head_reads_is_passed_over(tmp_path):
  theirs, run = tmp_path / "theirs", tmp_path / "run"
  write(theirs, {**encoders.CONFIGS["bert"]})
  config = encoders.CONFIGS["bert_tags"]
  parameters = weights(families.build(config))
  spare = {
    "pooler/dense/kernel": Tensor.of(np.ones((30, 30), np.float32)),
    "pooler/dense/bias": Tensor.of(np.ones(30, np.float32)),
  }
  (theirs / "config.json").unlink()
  writing.write_directory(
    theirs,
    family_of(config),
    {**config, "has_pooler": True},
    parameters | spare,
    generation=None,
  )
  said = []
  convert(theirs, run, report=said.append)
  assert said[0] == (
    "passed over: pooler/dense/bias, pooler/dense/kernel, which no head reads"
  )


@pytest.mark.parametrize(
  ("files", "name"),
  [
    (("bert", "heads/tokens_next_sentence"), "BertForPreTraining"),
    (("bert", "heads/number"), "BertForSequenceClassification"),
    (("bert", "heads/spans"), "BertForQuestionAnswering"),
    (("roberta", "heads/choice"), "RobertaForMultipleChoice"),
    (("roberta", "heads/tags"), "RobertaForTokenClassification"),
  ],
)
def test_models_of_the_gin_files_are_written(files, name, tmp_path):
  architecture, head = files
  bindings = {**tiny_models.TINY, "HEAD_DIM": 6}
  del bindings["NUM_DECODER_LAYERS"]
  model = zoo_config.build(
    "MODEL",
    [f"architectures/{architecture}.gin", f"{head}.gin"],
    [f"{key}={value!r}" for key, value in bindings.items()],
  )
  parameters = weights(model)
  exported_directory.write(tmp_path, model, parameters)
  found = directory.open_directory(tmp_path)
  assert found.config["architectures"] == [name]
  assert not (tmp_path / "generation_config.json").exists()
  assert not comparison.differences(model, families.build(found.config))
  for parameter, tensor in found.parameters().items():
    np.testing.assert_array_equal(
      tensor.read(), parameters[parameter].read(), err_msg=parameter
    )
