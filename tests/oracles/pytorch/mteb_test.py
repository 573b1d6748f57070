"""A task of MTEB scores the vectors of an encoder, without a network."""

import json

import datasets
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.types import PromptType
import numpy as np
import pytest
import scipy.stats
import transformers

import transformer_zoo as zoo
from transformer_zoo.api.harness import harness
from transformer_zoo.api.mteb_encoder import Encoder

ROWS = [
  ("a cat sat", "a cat sits", 4.0),
  ("the dog ran off", "he sings well", 1.0),
  ("two men talk", "two men are talking", 4.5),
  ("rain falls", "a red car stops", 0.0),
  ("she reads a book", "she reads", 3.0),
]


class Local(AbsTaskSTS):
  """A task whose rows are here."""

  min_score, max_score = 0, 5
  metadata = TaskMetadata(
    name="LocalSTS",
    description="Rows of a test.",
    dataset={"path": "local", "revision": "1"},
    type="STS",
    eval_langs=["eng-Latn"],
    main_score="cosine_spearman",
  )


@pytest.fixture
def task():
  made = Local()
  names = ("sentence1", "sentence2", "score")
  rows = [dict(zip(names, row, strict=True)) for row in ROWS]
  made.dataset = {"test": datasets.Dataset.from_list(rows)}
  made.data_loaded = True
  return made


@pytest.fixture
def model(tmp_path):
  """A directory of a tiny BERT with letters for tokens."""
  special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
  letters = [chr(i) for i in range(ord("a"), ord("z") + 1)]
  tokens = [*special, *letters, *(f"##{letter}" for letter in letters)]
  config = transformers.BertConfig(
    vocab_size=len(tokens),
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=40,
  )
  folder = tmp_path / "bert"
  transformers.BertModel(config).save_pretrained(folder)
  (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
  (folder / "tokenizer_config.json").write_text(
    json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True})
  )
  return zoo.load(folder, BATCH_SIZE=8)


def test_prompts_are_chosen_by_the_kind_of_text(task, model, tmp_path):
  folder = tmp_path / "bert"
  (folder / "config_sentence_transformers.json").write_text(
    json.dumps({"prompts": {"query": "ask ", "Summarization": "sum "}})
  )
  encoder = Encoder(model)
  found = {
    kind: encoder.encode(
      [{"text": ["a cat"]}],
      task_metadata=task.metadata,
      hf_split="test",
      hf_subset="default",
      prompt_type=kind,
    )
    for kind in (None, PromptType.query)
  }
  np.testing.assert_array_equal(found[None], model.embed(["a cat"]))
  np.testing.assert_array_equal(
    found[PromptType.query], model.embed(["ask a cat"])
  )


def test_scores_are_those_of_the_vectors(task, model, tmp_path):
  found = harness(model, [task], output_dir=tmp_path / "out")
  first, second = (model.embed([row[side] for row in ROWS]) for side in (0, 1))
  cosines = np.sum(first * second, axis=1) / (
    np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
  )
  expected = scipy.stats.spearmanr(cosines, [row[2] for row in ROWS])[0]
  scores = found["scores"]["LocalSTS"]
  assert scores["main_score"] == pytest.approx(expected, abs=1e-6)
  written = json.loads((tmp_path / "out" / "result.json").read_text())
  assert written["scores"]["LocalSTS"] == pytest.approx(scores)
