"""Attributes of published config.json files, of models and of other things."""

import functools
import json

import ml_dtypes
import numpy as np
import pytest

from tests.golden import encoders
from tests.golden import families
from tests.interop.huggingface import more_published
from transformer_zoo.checkpoints import model_parameters
from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import directory
from transformer_zoo.interop.huggingface import FAMILIES
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import to_theirs

KINDS = [family.kind for family in FAMILIES]
# Of versions 2 to 5 of `transformers`, of their options of generation, and of
# programs for fine-tuning.
PASSED_OVER = {
  "_attn_implementation_autoset": True,
  "_commit_hash": "0a1b",
  "_flash_attn_2_enabled": True,
  "_name_or_path": "google/t5-v1_1-base",
  "_num_labels": 3,
  "architectures": ["SomeModel"],
  "bad_words_ids": [[3]],
  "begin_suppress_tokens": None,
  "cache_implementation": "static",
  "chunk_size_feed_forward": 0,
  "cross_attention_hidden_size": None,
  "do_sample": True,
  "dtype": "bfloat16",
  "early_stopping": True,
  "exponential_decay_length_penalty": None,
  "finetuning_task": None,
  "gradient_checkpointing": False,
  "guidance_scale": 2.0,
  "id2label": {"0": "LABEL_0"},
  "is_decoder": False,
  "max_length": 20,
  "min_p": 0.1,
  "num_beams": 4,
  "output_past": True,
  "per_layer_config": None,
  "prefix": "summarize: ",
  "problem_type": None,
  "pruned_heads": {},
  "quantization_config": None,
  "renormalize_logits": True,
  "sep_token_id": None,
  "stop_strings": ["\n"],
  "task_specific_params": {"summarization": {"num_beams": 4}},
  "tf_legacy_loss": False,
  "tie_encoder_decoder": False,
  "tie_last_hidden_states": True,
  "tokenizer_class": "T5Tokenizer",
  "torch_dtype": "float16",
  "torchscript": False,
  "transformers_version": "4.57.1",
  "unsloth_fixed": True,
  "use_bfloat16": False,
  "use_cache": True,
  "xla_device": True,
}


def test_every_family_has_contracts_and_a_row():
  """Of the tables of tests/golden."""
  tables = (*families.CONFIGS.values(), *encoders.CONFIGS.values())
  assert {*KINDS} == {config["model_type"] for config in tables}


@pytest.mark.parametrize("kind", KINDS)
def test_each_number_is_written_from_where_it_is_bound(kind):
  """Rates and epsilons, no two alike; a comparison of models passes rates."""
  for config in (families.CONFIGS | encoders.CONFIGS).values():
    if config["model_type"] != kind or "rope_parameters" in config:
      continue
    rows = [
      row.theirs
      for row in family_of(config).attributes.rows
      if float in (row.kind, type(row.default)) and row.theirs not in config
    ]
    config = config | {row: 0.01 * (i + 1) for i, row in enumerate(rows)}
    model = families.build(config)
    assert architecture(family_of(config).config(model)) == architecture(config)


def architecture(config):
  return family_of(config).architecture(config)


@pytest.mark.parametrize("kind", KINDS)
def test_what_no_logit_depends_on_changes_nothing(kind):
  bare = {"model_type": kind}
  assert architecture({**bare, **PASSED_OVER}) == architecture(bare)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
  "problem", ["single_label_classification", "regression"]
)
def test_kinds_of_labels(kind, problem):
  bare = {"model_type": kind}
  assert architecture({**bare, "problem_type": problem}) == architecture(bare)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
  ("change", "sentence"),
  [
    (
      {"quantization_config": {"load_in_8bit": True}},
      "quantization_config={'load_in_8bit': True}, which is not built here; "
      "allowed: None",
    ),
    ({"auto_map": {"AutoModel": "m.M"}}, "has the attribute 'auto_map'"),
    ({"num_local_experts": 8}, "has the attribute 'num_local_experts'"),
    ({"tie_encoder_decoder": True}, "tie_encoder_decoder=True"),
    (
      {"problem_type": "multi_label_classification"},
      "problem_type='multi_label_classification', which is not built here; "
      "allowed: None, 'single_label_classification', 'regression'",
    ),
  ],
)
def test_what_logits_may_depend_on_is_refused(kind, change, sentence):
  with pytest.raises(UserError) as error:
    architecture({"model_type": kind, **change})
  assert sentence in str(error.value)


@pytest.mark.parametrize("kind", ["pegasus", "qwen3_moe", None])
def test_other_models_are_refused(kind):
  with pytest.raises(UserError, match="which is not known here"):
    architecture({"model_type": kind})


@pytest.mark.parametrize("kind", ["qwen3_moe", "smollm3", "led", ["t5"]])
def test_no_other_name_is_suggested(kind):
  """As Llama, SmolLM 3 would be given positions where it has none."""
  with pytest.raises(UserError) as error:
    family_of({"model_type": kind})
  known = ", ".join(map(repr, sorted(KINDS)))
  assert str(error.value) == (
    f"config.json has the model_type {kind!r}, which is not known here; "
    f"allowed: {known}. Do not write one of these in its place: the model "
    "would be read and compute something else"
  )


@pytest.mark.parametrize("name", more_published.CONFIGS)
def test_more_published_configurations(name):
  config, expected = more_published.CONFIGS[name]
  assert expected.items() <= architecture(config).bindings.items()


@pytest.mark.parametrize("kind", ["t5", "mt5", "umt5", "marian", "t5gemma"])
def test_what_the_decoder_is_first_fed(kind):
  bare = {"model_type": kind}
  padding = architecture(bare).bindings["EncoderDecoder.pad_id"]
  # EOS is not taken for padding where that goes without saying.
  assert padding == {"marian": 58100}.get(kind, 0)
  for start in (None, padding):
    said = {"decoder_start_token_id": start, "eos_token_id": 1}
    assert architecture({**bare, **said}) == architecture(bare)
  # Another one is no matter of the model's (MADLAD-400).
  another = {**bare, "decoder_start_token_id": 7}
  assert architecture(another) == architecture(bare)


def write(folder, config, tensors):
  (folder / "config.json").write_text(json.dumps(config))
  safetensors.write(folder / "model.safetensors", tensors)
  return directory.open_directory(folder)


@functools.cache
def untied(name):
  """A config.json without a tied softmax, and tensors of it, all zeros."""
  config = {**families.CONFIGS[name], "tie_word_embeddings": False}
  shapes = model_parameters.shapes_of(families.build(config))
  ours = {n: Tensor.of(np.zeros(s, np.float32)) for n, s in shapes.items()}
  return config, to_theirs(family_of(config).links(config), ours)


def without_prefix(tensors, table):
  prefix = table.partition(".")[0] + "."
  return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}


UNTIED = [
  ("gpt_1", "transformer.tokens_embed.weight"),
  ("gpt_2", "transformer.wte.weight"),
  ("gpt_neo", "transformer.wte.weight"),
  ("bloom", "transformer.word_embeddings.weight"),
  ("llama", "model.embed_tokens.weight"),
]


@pytest.mark.parametrize(("name", "table"), UNTIED)
def test_a_softmax_of_its_own_that_equals_the_table(name, table, tmp_path):
  """It stays one where config.json does not tie it; its gradient is its own."""
  config, tensors = untied(name)
  found = write(tmp_path, config, tensors)
  assert {"lm_head.weight", table} <= found.tensors.keys()
  assert not found.config["tie_word_embeddings"]
  assert "decoder/logits_dense/kernel" in found.parameters()


@pytest.mark.parametrize(("name", "table"), UNTIED)
def test_a_body_without_its_softmax_is_no_language_model(name, table, tmp_path):
  config, tensors = untied(name)
  bare = without_prefix(tensors, table)
  del bare["lm_head.weight"]
  with pytest.raises(UserError, match=r"missing: lm_head\.weight$"):
    write(tmp_path, config, bare).parameters()


@pytest.mark.parametrize(("name", "table"), UNTIED)
def test_a_softmax_beside_a_body_without_prefix(name, table, tmp_path):
  config, tensors = untied(name)
  found = write(tmp_path, config, without_prefix(tensors, table))
  assert found.tensors.keys() == tensors.keys()


def test_parameters_of_whole_numbers_are_refused(tmp_path):
  config, tensors = untied("llama")
  name = "model.layers.1.mlp.up_proj.weight"
  narrow = np.zeros(tensors[name].shape, np.int8)
  found = write(tmp_path, config, {**tensors, name: Tensor.of(narrow)})
  with pytest.raises(UserError) as error:
    found.parameters()
  assert f"not of floating-point numbers: {name} int8" in str(error.value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floating_point_numbers_are_read(dtype, tmp_path):
  config, tensors = untied("llama")
  chosen = np.dtype(getattr(ml_dtypes, dtype, dtype))
  narrow = {name: tensor.astype(chosen) for name, tensor in tensors.items()}
  found = write(tmp_path, config, narrow).parameters()
  assert {tensor.dtype.name for tensor in found.values()} == {dtype}
