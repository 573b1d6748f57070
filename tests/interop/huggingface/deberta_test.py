"""DeBERTa: released configurations, heads that are spare or missing."""

from flax import traverse_util
import numpy as np
import pytest

from tests import tiny_models
from tests.golden import encoders
from tests.golden import families
from tests.interop.huggingface import encoders_test
from transformer_zoo.conversion import exported_directory
from transformer_zoo.conversion import sources
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.interop.huggingface.families import deberta
from transformer_zoo.modules import comparison
from transformer_zoo.tensors.lazy_tensors import Tensor

V1_BASE = {
  "model_type": "deberta",
  "attention_probs_dropout_prob": 0.1,
  "hidden_act": "gelu",
  "hidden_dropout_prob": 0.1,
  "hidden_size": 768,
  "initializer_range": 0.02,
  "intermediate_size": 3072,
  "max_position_embeddings": 512,
  "relative_attention": True,
  "pos_att_type": "c2p|p2c",
  "layer_norm_eps": 1e-7,
  "max_relative_positions": -1,
  "position_biased_input": False,
  "num_attention_heads": 12,
  "num_hidden_layers": 12,
  "type_vocab_size": 0,
  "padding_idx": 0,
  "vocab_size": 50265,
}
V3_BASE = {
  **{name: V1_BASE[name] for name in V1_BASE if name != "padding_idx"},
  "model_type": "deberta-v2",
  "pos_att_type": "p2c|c2p",
  "position_buckets": 256,
  "norm_rel_ebd": "layer_norm",
  "share_att_key": True,
  "vocab_size": 128100,
}
V2_XLARGE = {
  **V3_BASE,
  "hidden_size": 1536,
  "intermediate_size": 6144,
  "num_attention_heads": 24,
  "num_hidden_layers": 24,
  "attention_head_size": 64,
  "conv_kernel_size": 3,
  "conv_act": "gelu",
  "pooler_dropout": 0,
  "pooler_hidden_act": "gelu",
}


@pytest.mark.parametrize(
  ("config", "architecture", "size"),
  [
    (V1_BASE, "deberta", "deberta_base"),
    (V3_BASE, "deberta_v3", "deberta_v3_base"),
    (V2_XLARGE, "deberta_v2", "deberta_v2_xlarge"),
  ],
)
def test_gin_files_are_the_released_models(config, architecture, size):
  """But for the mask decoder, which their classes lack."""
  kind = "DebertaV2" if config["model_type"] == "deberta-v2" else "Deberta"
  named = {"architectures": [f"{kind}ForMaskedLM"]}
  model = families.build({**config, **named})
  shipped = families.zoo_config.build(
    "MODEL",
    [f"architectures/{architecture}.gin", f"sizes/{size}.gin"],
    ["encoder/deberta_transformer.mask_decoder=None"],
  )
  assert not comparison.differences(model, shipped)


def spare_heads(tensors):
  """With what released files of version 3 have besides."""
  ones = lambda *shape: Tensor.of(np.ones(shape, np.float32))  # noqa: E731
  return {
    **tensors,
    "mask_predictions.dense.weight": ones(30, 30),
    "mask_predictions.classifier.weight": ones(1, 30),
    "deberta.embeddings.position_embeddings.weight": ones(29, 30),
  }


def test_a_released_file_of_version_3(tmp_path):
  """No class is named, and the head of masked tokens has its other name."""
  config = encoders.CONFIGS["deberta_2_masked"]
  ours = encoders_test.flat_weights("deberta_2_masked")
  unnamed = {n: v for n, v in config.items() if n != "architectures"}
  encoders_test.written(tmp_path, config, ours, spare_heads)
  encoders_test.writing.write_json(
    tmp_path / "config.json",
    {n: v for n, v in unnamed.items() if n != "legacy"},
  )
  lines = []
  found = sources.open_source(str(tmp_path), report=lines.append)
  assert lines == [
    "left out: deberta.embeddings.position_embeddings.weight, "
    "mask_predictions.classifier.weight, mask_predictions.dense.weight"
  ]
  assert found.parameters.keys() == ours.keys()
  for name, array in ours.items():
    np.testing.assert_array_equal(found.parameters[name].read(), array)


def test_classes_beside_the_head_of_masked_tokens(tmp_path):
  """The named class is read, the other head left out."""
  config = encoders.CONFIGS["deberta_classes"]
  ours = encoders_test.flat_weights("deberta_classes")
  masked = encoders_test.flat_weights("deberta_positions")
  links = family_of(config).links(encoders.CONFIGS["deberta_positions"])
  other = {
    name: tensor
    for name, tensor in encoders_test.to_theirs(
      links, {n: Tensor.of(array) for n, array in masked.items()}
    ).items()
    if name.startswith("lm_predictions.")
  }
  found = encoders_test.written(tmp_path, config, ours, lambda t: t | other)
  assert found.config["architectures"] == config["architectures"]
  assert found.notes == [f"left out: {', '.join(sorted(other))}"]
  assert found.parameters().keys() == ours.keys()


def test_a_head_that_is_missing(tmp_path):
  config = encoders.CONFIGS["deberta_2"]
  named = {**config, "architectures": ["DebertaV2ForMaskedLM"]}
  ours = encoders_test.flat_weights("deberta_2")
  encoders_test.written(tmp_path, config, ours)
  encoders_test.writing.write_json(tmp_path / "config.json", named)
  found = encoders_test.directory.open_directory(tmp_path)
  assert found.notes == [
    "config.json names DebertaV2ForMaskedLM; the files are of DebertaV2Model"
  ]
  assert found.parameters().keys() == ours.keys()


@pytest.mark.parametrize(
  ("config", "change", "sentence"),
  [
    (
      V1_BASE,
      {"relative_attention": False},
      "config.json of a deberta model has pos_att_type=['c2p', 'p2c'] and "
      "relative_attention=False; without distances there are no such terms",
    ),
    (
      V1_BASE,
      {"talking_head": True},
      "config.json of a deberta model has talking_head=True, which is not "
      "built here; allowed: False",
    ),
    (
      V1_BASE,
      {"pos_att_type": "c2p|p2p"},
      "config.json of a deberta model has pos_att_type='p2p', which is not "
      "built here; allowed: 'c2p', 'p2c'",
    ),
    (
      V3_BASE,
      {"pos_att_type": ["c2p", "c2p"]},
      "config.json of a deberta-v2 model has pos_att_type=['c2p', 'c2p'], "
      "which names a term twice",
    ),
    (
      V3_BASE,
      {"embedding_size": 128},
      "config.json of a deberta-v2 model has embedding_size=128, which is not "
      "built here; allowed: 768",
    ),
    (
      V3_BASE,
      {"type_vocab_size": 2},
      "config.json of a deberta-v2 model has type_vocab_size=2, which is not "
      "built here; allowed: 0",
    ),
    (
      V2_XLARGE,
      {"conv_groups": 2},
      "config.json of a deberta-v2 model has conv_groups=2, which is not built "
      "here; allowed: 1",
    ),
    (
      V1_BASE,
      {"share_att_key": True},
      "config.json of a deberta model has the attribute 'share_att_key' "
      "(True), which is not understood here; remove it if no output of the "
      "model depends on it",
    ),
  ],
)
def test_refusals(config, change, sentence):
  with pytest.raises(UserError) as caught:
    families.build({**config, **change})
  assert str(caught.value) == sentence


def test_a_model_with_a_mask_decoder_is_none_of_theirs():
  model = families.zoo_config.build(
    "MODEL", ["architectures/deberta_v3.gin", "sizes/deberta_v3_xsmall.gin"]
  )
  with pytest.raises(UserError) as caught:
    family_of(V3_BASE).config(model)
  assert str(caught.value) == (
    "deberta-v2 models have no enhanced mask decoder, which the head of masked "
    "tokens reads here; train with encoder/deberta_transformer.mask_decoder = "
    "None to write it"
  )


def test_a_fine_tuned_model_is_written_without_its_mask_decoder(tmp_path):
  model, _ = tiny_models.build(
    "deberta_v3", "../heads/classes.gin", EMBED_DIM=32, HEAD_DIM=8
  )
  ours = traverse_util.flatten_dict(
    tiny_models.random_parameters(model), sep="/"
  )
  exported_directory.write(
    tmp_path, model, {n: Tensor.of(array) for n, array in ours.items()}
  )
  found = encoders_test.directory.open_directory(tmp_path)
  name = "DebertaV2ForSequenceClassification"
  assert found.config["architectures"] == [name]
  parameters = found.parameters()
  assert ours.keys() - parameters.keys() == {
    "encoder/mask_decoder/positions/pos_embedding"
  }
  for parameter, tensor in parameters.items():
    np.testing.assert_array_equal(tensor.read(), ours[parameter])


def test_kernels_of_convolutions_lie_place_by_place():
  """Theirs is (out, in, place), ours (place and in, out)."""
  theirs = np.arange(4 * 5 * 3).reshape(4, 5, 3)
  kernel = deberta.Kernel(size=3)
  (ours,) = kernel.split(theirs)
  for out, inside, place in np.ndindex(theirs.shape):
    assert ours[5 * place + inside, out] == theirs[out, inside, place]
  np.testing.assert_array_equal(kernel.join([ours]), theirs)
