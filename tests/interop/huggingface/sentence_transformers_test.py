"""The head `embedding` as directories of sentence-transformers describe it."""

import json

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.interop.huggingface import sentence_transformers
from transformer_zoo.interop.huggingface.family import Architecture

KINDS = ("Transformer", "Pooling", "Normalize")
ENCODER = Architecture(
  ("architectures/bert.gin",), {"EncoderOnly.pad_id": 0, "Heads.parts": {}}
)
DECODER = Architecture(("architectures/qwen3.gin",), {"DecoderOnly.pad_id": 0})


def write(folder, kinds=KINDS, pooling=None, **files):
  modules = [
    {
      "idx": i,
      "name": str(i),
      "path": f"{i}_{kind}" if i else "",
      "type": f"sentence_transformers.models.{kind}",
    }
    for i, kind in enumerate(kinds)
  ]
  for module in modules[1:]:
    (folder / module["path"]).mkdir()
  pooling = pooling or {"pooling_mode_mean_tokens": True}
  texts = {"modules": modules, "1_Pooling/config": pooling} | files
  for name, content in texts.items():
    (folder / f"{name}.json").write_text(json.dumps(content))
  return folder


def bound(folder):
  return sentence_transformers.with_head(folder, ENCODER).as_overrides()


def test_pooling_projection_and_normalization(tmp_path):
  pooling = {
    "word_embedding_dimension": 8,
    "pooling_mode_cls_token": True,
    "pooling_mode_mean_tokens": False,
  }
  dense = {
    "in_features": 8,
    "out_features": 3,
    "bias": False,
    "activation_function": "torch.nn.modules.linear.Identity",
  }
  kinds = (*KINDS[:2], "Dense", "Normalize")
  folder = write(tmp_path, kinds, pooling, **{"2_Dense/config": dense})
  assert sentence_transformers.with_head(folder, DECODER) == DECODER
  assert bound(folder) == [
    "EncoderOnly.pad_id=0",
    "Heads.parts={'embedding': @TextVectors()}",
    "EncoderOnly.pooler=None",
    "TextVectors.pool='first'",
    "TextVectors.normalize=True",
    "TextVectors.projection=@projection/Pooler()",
    "projection/Pooler.features=3",
    "projection/Pooler.activation='linear'",
    "projection/Pooler.dense=@projection/Linear()",
    "projection/Linear.use_bias=False",
    "projection/Linear.kernel_axes=('embed', None)",
  ]


def test_lengths_and_prompts(tmp_path):
  assert sentence_transformers.with_head(tmp_path, ENCODER) == ENCODER
  assert sentence_transformers.longest(tmp_path) is None
  assert sentence_transformers.prompts(tmp_path) == {}
  prompts = {"query": "query: ", "document": ""}
  folder = write(
    tmp_path,
    pooling={"pooling_mode": "lasttoken"},
    sentence_bert_config={"max_seq_length": 256, "do_lower_case": False},
    config_sentence_transformers={
      "prompts": prompts,
      "default_prompt_name": "query",
    },
  )
  assert "TextVectors.pool='last'" in bound(folder)
  assert sentence_transformers.longest(folder) == 256
  assert sentence_transformers.prompts(folder) == {
    "prompts": prompts,
    "prompt": "query",
  }


@pytest.mark.parametrize(
  "files, told",
  [
    ({"kinds": (*KINDS[:2], "LSTM")}, "lists the modules .*, LSTM; "),
    ({"pooling": {"pooling_mode_max_tokens": True}}, "poolings max_tokens; "),
    ({"pooling": {"pooling_mode_mean_tokens": False}}, "poolings none; "),
    (
      {"pooling": {"pooling_mode": "mean", "include_prompt": False}},
      "has include_prompt=false, which is not followed",
    ),
    ({"modules": {"a": 1}}, "modules.json"),
    (
      {
        "kinds": (*KINDS[:2], "Dense"),
        "2_Dense/config": {
          "in_features": 8,
          "out_features": 8,
          "activation_function": "torch.nn.Softplus",
        },
      },
      "has the activation_function 'torch.nn.Softplus'",
    ),
  ],
)
def test_what_is_not_made_is_refused(tmp_path, files, told):
  folder = write(tmp_path, **files)
  with pytest.raises(UserError, match=told):
    bound(folder)


def test_lengths_and_prompts_that_are_not_followed_are_refused(tmp_path):
  folder = write(
    tmp_path,
    sentence_bert_config={"do_lower_case": True},
    config_sentence_transformers={"default_prompt_name": "query"},
  )
  with pytest.raises(UserError, match="sets do_lower_case, which is not"):
    sentence_transformers.longest(folder)
  with pytest.raises(UserError, match="default_prompt_name 'query' and no"):
    sentence_transformers.prompts(folder)
