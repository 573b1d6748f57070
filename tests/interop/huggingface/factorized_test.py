"""ALBERT and ELECTRA: published files, heads too many or too few, refusals."""

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_models
from tests.golden import encoders
from tests.golden import families
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface import writing
from transformer_zoo.modules import comparison
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import to_theirs

ALBERT_BASE = {
  "architectures": ["AlbertForMaskedLM"],
  "attention_probs_dropout_prob": 0,
  "bos_token_id": 2,
  "classifier_dropout_prob": 0.1,
  "down_scale_factor": 1,
  "embedding_size": 128,
  "eos_token_id": 3,
  "gap_size": 0,
  "hidden_act": "gelu_new",
  "hidden_dropout_prob": 0,
  "hidden_size": 768,
  "initializer_range": 0.02,
  "inner_group_num": 1,
  "intermediate_size": 3072,
  "layer_norm_eps": 1e-12,
  "max_position_embeddings": 512,
  "model_type": "albert",
  "net_structure_type": 0,
  "num_attention_heads": 12,
  "num_hidden_groups": 1,
  "num_hidden_layers": 12,
  "num_memory_blocks": 0,
  "pad_token_id": 0,
  "type_vocab_size": 2,
  "vocab_size": 30000,
}
ELECTRA_SMALL = {
  "architectures": ["ElectraForPreTraining"],
  "attention_probs_dropout_prob": 0.1,
  "embedding_size": 128,
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "hidden_size": 256,
  "initializer_range": 0.02,
  "intermediate_size": 1024,
  "layer_norm_eps": 1e-12,
  "max_position_embeddings": 512,
  "model_type": "electra",
  "num_attention_heads": 4,
  "num_hidden_layers": 12,
  "pad_token_id": 0,
  "summary_activation": "gelu",
  "summary_last_dropout": 0.1,
  "summary_type": "first",
  "summary_use_proj": True,
  "type_vocab_size": 2,
  "vocab_size": 30522,
}


def tensors_of(config):
  ours = traverse_util.flatten_dict(
    tiny_models.random_parameters(families.build(config)), sep="/"
  )
  return to_theirs(
    family_of(config).links(config), {n: Tensor.of(a) for n, a in ours.items()}
  )


def opened(folder, config, tensors):
  safetensors.write(folder / directory.SAFETENSORS, tensors)
  writing.write_json(folder / directory.CONFIG, config)
  return directory.open_directory(folder)


@pytest.mark.parametrize(
  ("config", "files"),
  [
    (ALBERT_BASE, ("architectures/albert.gin", "sizes/albert_base.gin")),
    (ELECTRA_SMALL, ("architectures/electra.gin", "sizes/electra_small.gin")),
  ],
)
def test_the_gin_files_are_the_published_models(config, files):
  bare = {"albert": "AlbertModel", "electra": "ElectraModel"}
  model = families.build(
    {**config, "architectures": [bare[config["model_type"]]]}
  )
  shipped = families.zoo_config.build("MODEL", [*files])
  different = comparison.differences(model, shipped)
  assert {*different} == {"heads.parts.tokens"}


@pytest.mark.parametrize(
  "read", ["electra_discriminator", "electra_generator", "electra_tags"]
)
def test_heads_beside_that_of_the_class_are_left_out(read, tmp_path):
  """The named class is read; a line says which tensors are not."""
  config = encoders.CONFIGS[read]
  everything = {}
  for name in ("electra_discriminator", "electra_generator", "electra_tags"):
    everything |= tensors_of({**encoders.CONFIGS[name], "id2label": None})
  wanted = tensors_of({**config, "id2label": None})
  extra = sorted(everything.keys() - wanted.keys())
  found = opened(tmp_path, {**config, "id2label": None}, everything | wanted)
  assert found.notes == [f"left out: {', '.join(extra)}"]
  assert found.config["architectures"] == config["architectures"]
  model = families.build(found.config)
  params = tiny_models.random_parameters(model)
  assert found.parameters().keys() == (
    traverse_util.flatten_dict(params, sep="/").keys()
  )


def test_another_head_than_the_named_one(tmp_path):
  """A generator's file that names the discriminator, and a bare one."""
  config = encoders.CONFIGS["electra_generator"]
  named = {**config, "architectures": ["ElectraForPreTraining"]}
  found = opened(tmp_path, named, tensors_of(config))
  assert found.config["architectures"] == ["ElectraForMaskedLM"]
  assert found.notes == [
    "config.json names ElectraForPreTraining; the files are of "
    "ElectraForMaskedLM"
  ]
  bare = {
    name: tensor
    for name, tensor in tensors_of(config).items()
    if name.startswith("electra.")
  }
  found = opened(tmp_path, named, bare)
  assert found.config["architectures"] == ["ElectraModel"]
  assert len(found.notes) == 1


@pytest.mark.parametrize("name", ["albert_groups", "albert_pre_training"])
def test_one_copy_of_what_layers_share(name, tmp_path):
  config = encoders.CONFIGS[name]
  tensors = tensors_of(config)
  copies = [n for n in tensors if n.endswith("ffn.weight")]
  assert len(copies) == config["num_hidden_groups"]
  model = families.build(config)
  back = family_of(config).config(model)
  assert back["num_hidden_groups"] == config["num_hidden_groups"]
  assert back["num_hidden_layers"] == 4
  ours = opened(tmp_path, config, tensors).parameters()
  kernels = [n for n in ours if n.endswith("mlp/wi/kernel")]
  assert len(kernels) == config["num_hidden_groups"]
  np.testing.assert_array_equal(
    ours["encoder/layers_0/mlp/wi/kernel"].read(),
    tensors[copies[0]].read().T,
  )


@pytest.mark.parametrize(
  ("config", "change", "sentence"),
  [
    (
      ALBERT_BASE,
      {"inner_group_num": 2},
      "config.json of a albert model has inner_group_num=2, which is not built "
      "here; allowed: 1",
    ),
    (
      ALBERT_BASE,
      {"num_hidden_groups": 5},
      "config.json of a albert model has num_hidden_groups=5, which does not "
      "divide num_hidden_layers=12; groups have equally many layers here",
    ),
    (
      ELECTRA_SMALL,
      {"summary_type": "mean"},
      "config.json of a electra model has summary_type='mean', which is not "
      "built here; allowed: 'first'",
    ),
    (
      ELECTRA_SMALL,
      {"is_decoder": True},
      "config.json of a electra model has is_decoder=True, which is not built "
      "here; allowed: False",
    ),
    (
      ALBERT_BASE,
      {"num_hidden_layers": 10**9},
      "config.json of a albert model has num_hidden_layers=1000000000; layers "
      "that share parameters are at most 1,000 here",
    ),
  ],
)
def test_what_is_not_understood_is_refused_by_name(config, change, sentence):
  with pytest.raises(UserError) as caught:
    family_of(config).architecture({**config, **change})
  assert str(caught.value) == sentence


def test_models_that_no_class_computes():
  model, _ = tiny_models.build("albert", "sharing/attention.gin")
  with pytest.raises(UserError) as caught:
    family_of(ALBERT_BASE).config(model)
  assert str(caught.value) == (
    "albert models share whole layers or none, and layers of this model share "
    "attention (Stack.shared)"
  )
  model, _ = tiny_models.build("albert")
  with pytest.raises(
    UserError, match="electra models have parameters for each"
  ):
    family_of(ELECTRA_SMALL).config(model)
  model, _ = tiny_models.build("bert")
  with pytest.raises(UserError, match="albert models have a projection from"):
    family_of(ALBERT_BASE).config(model)
