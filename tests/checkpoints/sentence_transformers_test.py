"""Vectors as directories of sentence-transformers describe them."""

import json
import types

import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.checkpoints import sentence_transformers
from transformer_zoo.errors import UserError
from transformer_zoo.runs.answers import embeddings

KINDS = ("Transformer", "Pooling", "Normalize")


def write(folder, kinds=KINDS, pooling=None, **files):
  (folder / "1_Pooling").mkdir()
  modules = [
    {
      "idx": i,
      "name": str(i),
      "path": f"{i}_{kind}" if i else "",
      "type": f"sentence_transformers.models.{kind}",
    }
    for i, kind in enumerate(kinds)
  ]
  pooling = pooling or {"pooling_mode_mean_tokens": True}
  texts = {"modules": modules, "1_Pooling/config": pooling} | files
  for name, content in texts.items():
    (folder / f"{name}.json").write_text(json.dumps(content))
  return folder


def test_pooling_normalization_and_length(tmp_path):
  pooling = {
    "word_embedding_dimension": 8,
    "pooling_mode_cls_token": True,
    "pooling_mode_mean_tokens": False,
  }
  folder = write(
    tmp_path, pooling=pooling, sentence_bert_config={"max_seq_length": 256}
  )
  assert sentence_transformers.overrides(folder) == [
    "Embedding.pool='first'",
    "Embedding.normalize=True",
    "TASK_FEATURE_LENGTHS={'inputs': 256}",
  ]


def test_a_pooling_alone_and_no_modules(tmp_path):
  assert sentence_transformers.overrides(tmp_path) == []
  folder = write(tmp_path, kinds=KINDS[:2])
  assert sentence_transformers.overrides(folder) == [
    "Embedding.pool='mean'",
    "Embedding.normalize=False",
  ]


@pytest.mark.parametrize(
  "files, told",
  [
    ({"kinds": (*KINDS[:2], "Dense")}, "lists the modules .*, Dense; "),
    ({"pooling": {"pooling_mode_max_tokens": True}}, "poolings max_tokens; "),
    ({"pooling": {"pooling_mode_mean_tokens": False}}, "poolings none; "),
    (
      {"sentence_bert_config": {"do_lower_case": True}},
      "sets do_lower_case, which is not followed",
    ),
    (
      {"config_sentence_transformers": {"default_prompt_name": "query"}},
      "has the default_prompt_name 'query', which is not followed",
    ),
    ({"modules": {"a": 1}}, "modules.json"),
  ],
)
def test_what_is_not_made_is_refused(tmp_path, files, told):
  with pytest.raises(UserError, match=told):
    sentence_transformers.overrides(write(tmp_path, **files))


def test_a_normalized_vector_has_the_norm_one():
  hidden_BLD = jnp.array([[[3.0, 4.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
  model = types.SimpleNamespace(apply=lambda *_, **__: hidden_BLD, pad_id=0)
  vectors_BD = embeddings._vectors(
    model, embeddings.Embedding("first", normalize=True), None, {}
  )
  np.testing.assert_allclose(vectors_BD, [[0.6, 0.8], [0.0, 0.0]], rtol=1e-6)
