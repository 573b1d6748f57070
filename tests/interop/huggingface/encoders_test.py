"""BERT, RoBERTa and DistilBERT: classes, files as published, refusals."""

from flax import traverse_util
import numpy as np
import pytest

from tests.golden import encoders
from tests.golden import families
from transformer_zoo.conversion import exported_directory
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.modules import comparison
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import to_theirs
from transformer_zoo.training import state

BERT_BASE = {
  "architectures": ["BertForMaskedLM"],
  "attention_probs_dropout_prob": 0.1,
  "gradient_checkpointing": False,
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "hidden_size": 768,
  "initializer_range": 0.02,
  "intermediate_size": 3072,
  "layer_norm_eps": 1e-12,
  "max_position_embeddings": 512,
  "model_type": "bert",
  "num_attention_heads": 12,
  "num_hidden_layers": 12,
  "pad_token_id": 0,
  "position_embedding_type": "absolute",
  "transformers_version": "4.6.0.dev0",
  "type_vocab_size": 2,
  "use_cache": True,
  "vocab_size": 30522,
}
ROBERTA_BASE = {
  **{k: v for k, v in BERT_BASE.items() if k != "position_embedding_type"},
  "architectures": ["RobertaForMaskedLM"],
  "model_type": "roberta",
  "bos_token_id": 0,
  "eos_token_id": 2,
  "layer_norm_eps": 1e-5,
  "max_position_embeddings": 514,
  "pad_token_id": 1,
  "type_vocab_size": 1,
  "vocab_size": 50265,
}
DISTILBERT_SST_2 = {
  "activation": "gelu",
  "architectures": ["DistilBertForSequenceClassification"],
  "attention_dropout": 0.1,
  "dim": 768,
  "dropout": 0.1,
  "finetuning_task": "sst-2",
  "hidden_dim": 3072,
  "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
  "initializer_range": 0.02,
  "label2id": {"NEGATIVE": 0, "POSITIVE": 1},
  "max_position_embeddings": 512,
  "model_type": "distilbert",
  "n_heads": 12,
  "n_layers": 6,
  "output_past": True,
  "pad_token_id": 0,
  "qa_dropout": 0.1,
  "seq_classif_dropout": 0.2,
  "sinusoidal_pos_embds": False,
  "tie_weights_": True,
  "vocab_size": 30522,
}
MULTILINGUAL = {
  "directionality": "bidi",
  "pooler_fc_size": 768,
  "pooler_num_attention_heads": 12,
  "pooler_num_fc_layers": 3,
  "pooler_size_per_head": 128,
  "pooler_type": "first_token_transform",
}


def flat_weights(name):
  """Our parameters of a config.json of `encoders`, by name."""
  model = families.build(encoders.CONFIGS[name])
  return traverse_util.flatten_dict(families.weights(model), sep="/")


def written(folder, config, ours, change=lambda tensors: tensors):
  """A directory of our parameters, whose tensors `change` has changed."""
  tensors = to_theirs(
    family_of(config).links(config),
    {name: Tensor.of(array) for name, array in ours.items()},
  )
  safetensors.write(folder / directory.SAFETENSORS, change(tensors))
  writing.write_json(folder / directory.CONFIG, config)
  return directory.open_directory(folder)


# What all families have alike is a slow test of all but BERT.
ALIKE = ("_choice", "_classes", "_masked", "_number", "_spans", "_tags")
ALIKE += ("_untied",)


@pytest.mark.parametrize(
  "name",
  [
    pytest.param(
      name,
      marks=pytest.mark.slow
      if name.endswith(ALIKE) and not name.startswith("bert")
      else (),
    )
    for name in encoders.CONFIGS
  ],
)
def test_links_are_the_parameters_and_the_configuration_comes_back(name):
  config = encoders.shallow(name)
  family, model = family_of(config), families.build(config)
  links = family.links(config)
  read = [link for link in links if not link.only_written]
  parameters = traverse_util.flatten_dict(state.abstract_params(model), sep="/")
  assert sorted(n for link in read for n in link.ours) == sorted(parameters)
  assert len({link.theirs for link in links}) == len(links)
  described = family.config(model)
  again = families.build(described)
  assert not comparison.differences(model, again)
  assert again.pad_id == model.pad_id
  assert described["architectures"] == config["architectures"]


@pytest.mark.parametrize(
  ("name", "model_type"),
  [
    ("bert_pre_training", "bert"),
    ("roberta_choice", "roberta"),
    ("xlm_roberta_classes", "roberta"),
    ("distilbert_classes", "distilbert"),
  ],
)
def test_an_export_finds_the_family(name, model_type, tmp_path):
  """XLM-RoBERTa is RoBERTa, of which nothing but the vocabulary tells it."""
  ours = flat_weights(name)
  model = families.build(encoders.CONFIGS[name])
  exported_directory.write(
    tmp_path, model, {n: Tensor.of(array) for n, array in ours.items()}
  )
  found = directory.open_directory(tmp_path)
  assert found.config["model_type"] == model_type
  assert not comparison.differences(model, families.build(found.config))
  for parameter, tensor in found.parameters().items():
    np.testing.assert_array_equal(tensor.read(), ours[parameter])


def test_published_bert():
  model = families.build({**BERT_BASE, **MULTILINGUAL})
  assert (model.pad_id, model.token_type_embedder.num_types) == (0, 2)
  assert model.encoder.layer_stack.layer.mlp.activation == "gelu_exact"
  assert model.heads.parts["tokens"].activation == "gelu_exact"
  assert model.encoder.position_embedder.num_positions == 512


def test_published_roberta():
  """The gin file and the size are the published model."""
  model = families.build({**ROBERTA_BASE, "zero_token_types": True})
  shipped = families.zoo_config.build(
    "MODEL", ["architectures/roberta.gin", "sizes/roberta_base.gin"]
  )
  assert not comparison.differences(model, shipped)
  assert model.pad_id == shipped.pad_id


def test_published_distilbert():
  model = families.build(DISTILBERT_SST_2)
  head = model.heads.parts["classes"]
  assert (head.num_classes, head.dropout.rate) == (2, 0.2)
  assert head.pooler.activation == "relu"
  assert model.token_type_embedder is None
  assert model.pooler is None


def test_the_dropout_of_a_head_that_is_not_said_is_that_of_layers():
  config = encoders.CONFIGS["bert_classes"]
  for said, rate in ((None, 0.3), (0.05, 0.05), (0, 0.0)):
    changes = {"classifier_dropout": said, "hidden_dropout_prob": 0.3}
    model = families.build({**config, **changes})
    assert model.heads.parts["classes"].dropout.rate == rate
    assert model.encoder.layer_stack.layer.dropout.rate == 0.3


def of_pre_training(tensors):
  """As bert-base-uncased: gamma and beta, the softmax under two names."""
  old = {
    name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
      "LayerNorm.bias", "LayerNorm.beta"
    ): tensor
    for name, tensor in tensors.items()
  }
  assert "bert.embeddings.LayerNorm.gamma" in old
  table = old["bert.embeddings.word_embeddings.weight"]
  del old["cls.predictions.decoder.bias"]
  ids = Tensor.of(np.arange(29)[None])
  return {
    **old,
    "cls.predictions.decoder.weight": table,
    "bert.embeddings.position_ids": ids,
  }


def without_prefix(tensors):
  return {
    name.removeprefix("bert.").removeprefix("distilbert."): tensor
    for name, tensor in tensors.items()
  }


@pytest.mark.parametrize(
  ("name", "as_published", "changes"),
  [
    # The published one names the class for masked tokens alone.
    (
      "bert_pre_training",
      of_pre_training,
      {"architectures": ["BertForMaskedLM"]},
    ),
    ("bert_pre_training", of_pre_training, {"architectures": None}),
    ("bert", without_prefix, {}),
    ("bert_classes", without_prefix, {}),
    (
      "distilbert",
      without_prefix,
      {"architectures": ["DistilBertForMaskedLM"]},
    ),
    ("distilbert_tags", without_prefix, {}),
  ],
)  # fmt: skip
def test_files_as_they_were_published(name, as_published, changes, tmp_path):
  config, ours = encoders.CONFIGS[name], flat_weights(name)
  tensors = to_theirs(
    family_of(config).links(config),
    {name: Tensor.of(array) for name, array in ours.items()},
  )
  safetensors.write(tmp_path / directory.SAFETENSORS, as_published(tensors))
  writing.write_json(tmp_path / directory.CONFIG, {**config, **changes})
  found = directory.open_directory(tmp_path)
  assert found.config["architectures"] == config["architectures"]
  parameters = found.parameters()
  assert parameters.keys() == ours.keys()
  for parameter, array in ours.items():
    np.testing.assert_array_equal(parameters[parameter].read(), array)


def test_a_table_of_one_type_that_is_zero_is_none(tmp_path):
  """As fairseq's RoBERTa; one that was trained further is kept."""
  name = "roberta_masked"
  config, ours = encoders.CONFIGS[name], flat_weights(name)
  kept = written(tmp_path, config, ours)
  assert "token_type_embedder/embedding" in kept.parameters()
  table = "token_type_embedder/embedding"
  found = written(tmp_path, config, {**ours, table: np.zeros_like(ours[table])})
  assert table not in found.parameters()
  assert families.build(found.config).token_type_embedder is None


def test_a_pooler_that_no_head_reads(tmp_path):
  """It lies in many files of heads that read tokens; the model has none."""
  config, ours = encoders.CONFIGS["bert_tags"], flat_weights("bert_tags")
  kernel = Tensor.of(np.ones((30, 30), np.float32))
  bias = Tensor.of(np.ones(30, np.float32))
  spare = {"bert.pooler.dense.weight": kernel, "bert.pooler.dense.bias": bias}
  found = written(tmp_path, config, ours, lambda tensors: tensors | spare)
  parameters = found.parameters({n: a.shape for n, a in ours.items()})
  assert parameters.keys() - ours.keys() == {
    "pooler/dense/kernel",
    "pooler/dense/bias",
  }


def test_an_untied_softmax_has_the_bias_of_its_layer(tmp_path):
  """In `transformers` 5, the other of its two names is then read by nothing."""
  config, ours = encoders.CONFIGS["bert_untied"], flat_weights("bert_untied")
  other = Tensor.of(np.zeros(45, np.float32))
  found = written(
    tmp_path, config, ours, lambda t: t | {"cls.predictions.bias": other}
  )
  bias = "heads/tokens/logits_dense/bias"
  np.testing.assert_array_equal(found.parameters()[bias].read(), ours[bias])
  # Version 4 saves one of the two.
  found = written(
    tmp_path,
    config,
    ours,
    lambda t: {
      n: v for n, v in t.items() if n != "cls.predictions.decoder.bias"
    },
  )
  np.testing.assert_array_equal(found.parameters()[bias].read(), ours[bias])


@pytest.mark.parametrize(
  ("config", "change", "sentence"),
  [
    (
      BERT_BASE,
      {"position_embedding_type": "relative_key"},
      "config.json of a bert model has position_embedding_type='relative_key', "
      "which is not built here; allowed: 'absolute'",
    ),
    (
      BERT_BASE,
      {"is_decoder": True},
      "config.json of a bert model has is_decoder=True, which is not built "
      "here; allowed: False",
    ),
    (
      ROBERTA_BASE,
      {"adapter_size": 64},
      "config.json of a roberta model has the attribute 'adapter_size' (64), "
      "which is not understood here; remove it if no output of the model "
      "depends on it",
    ),
    (
      ROBERTA_BASE,
      {"max_position_embeddings": 2},
      "config.json of a roberta model has max_position_embeddings=2, of which "
      "the first 2 are before pad_token_id + 1; it takes at least 3",
    ),
    (
      ROBERTA_BASE,
      {"num_attention_heads": 11},
      "roberta models have a hidden_size that is a multiple of "
      "num_attention_heads; 768 is no multiple of 11",
    ),
    (
      DISTILBERT_SST_2,
      {"activation": "mish"},
      "config.json of a distilbert model has activation='mish', which is not "
      "built here; allowed: 'relu', 'gelu', 'gelu_python', 'gelu_new', "
      "'gelu_fast', 'gelu_accurate', 'gelu_pytorch_tanh', 'silu', 'swish', "
      "'sigmoid', 'tanh', 'linear'",
    ),
    (
      DISTILBERT_SST_2,
      {"id2label": ["a", "b"]},
      "config.json of a distilbert model has id2label=['a', 'b']; it takes a "
      "table or null",
    ),
  ],
)
def test_what_is_not_understood_is_refused_by_name(config, change, sentence):
  config = {**config, **change}
  with pytest.raises(UserError) as caught:
    family_of(config).architecture(config)
  assert str(caught.value) == sentence


def test_a_head_of_several_classes_is_named(tmp_path):
  config = {**encoders.CONFIGS["bert_classes"], "architectures": ["Mine"]}
  ours = flat_weights("bert_classes")
  tensors = to_theirs(
    family_of(config).links(encoders.CONFIGS["bert_classes"]),
    {name: Tensor.of(array) for name, array in ours.items()},
  )
  safetensors.write(tmp_path / directory.SAFETENSORS, tensors)
  writing.write_json(tmp_path / directory.CONFIG, config)
  with pytest.raises(UserError) as caught:
    directory.open_directory(tmp_path)
  assert str(caught.value) == (
    "config.json of a bert model has architectures=['Mine'], and its tensors "
    "may belong to BertForSequenceClassification, BertForTokenClassification, "
    "BertForMultipleChoice; write the right one there, in a list"
  )


def test_a_head_that_no_class_has_is_refused():
  model = families.zoo_config.build(
    "MODEL",
    [
      "architectures/bert.gin",
      "sizes/bert_tiny.gin",
      "heads/tokens_sentence_order.gin",
    ],
  )
  with pytest.raises(UserError) as caught:
    family_of(BERT_BASE).config(model)
  assert str(caught.value) == (
    "bert models have no class with the heads tokens, sentence_order"
  )
