"""Tasks read TFDS datasets from disk, as TFDS writes them."""

import pytest
import seqio
import tensorflow_datasets as tfds

import tasks  # noqa: F401
from tests.tasks import tfds_rows

_TRIVIA = {
  "question": "What is the answer?",
  "question_id": "1",
  "question_source": "s",
  "entity_pages": {
    "doc_source": ["s"],
    "filename": ["f"],
    "title": ["t"],
    "wiki_context": ["The answer is the key."],
  },
  "search_results": {
    "description": [],
    "filename": [],
    "rank": [],
    "search_context": [],
    "title": [],
    "url": [],
  },
  "answer": {
    "aliases": ["Key", "Lock"],
    "normalized_aliases": ["key", "lock"],
    "matched_wiki_entity_name": "",
    "normalized_matched_wiki_entity_name": "",
    "normalized_value": "key",
    "type": "",
    "value": "Key",
  },
}


@pytest.mark.slow
@pytest.mark.usefixtures("translated")
@pytest.mark.parametrize(
  "task, row, inputs, target",
  [
    (
      "race_high_v200",
      {
        "article": "It rained.",
        "questions": ["How was it?"],
        "options": [["dry", "wet", "hot", "cold"]],
        "answers": ["B"],
        "example_id": "high1.txt",
      },
      "race question: How was it? choice1: dry choice2: wet choice3: hot "
      "choice4: cold article: It rained.",
      "choice2",
    ),
    (
      "trivia_qa_v010",
      _TRIVIA,
      # Its last step keeps the token ids alone.
      None,
      "key",
    ),
    (
      "natural_questions_open_test",
      {"question": "who are they", "answer": ["Ann", "Bob"]},
      "nq question: who are they",
      "Ann",
    ),
    (
      "squad_v2_v030_allanswers",
      {
        "id": "1",
        "title": "t",
        "context": "Some context.",
        "question": "A question?",
        "answers": {"text": [], "answer_start": []},
        "plausible_answers": {"text": ["context"], "answer_start": [5]},
        "is_impossible": True,
      },
      "question: A question ? context: Some context . ",
      "unanswerable",
    ),
    (
      "conll2003_ner_v100",
      {
        "tokens": ["EU", "rejects"],
        "ner": ["B-ORG", "O"],
        "pos": ["NNP", "VBZ"],
        "chunks": ["B-NP", "B-VP"],
      },
      "conll2003 sentence: EU rejects",
      "[ EU | ORG ] rejects",
    ),
    (
      "wmt16_enro_v003",
      {"en": "That is good.", "ro": "Asta e bine."},
      "translate English to Romanian: That is good.",
      "Asta e bine.",
    ),
  ],
)
def test_first_example(
  task, row, inputs, target, shared_data, tmp_path, monkeypatch
):
  """Also of a dataset that has only the one split that was written."""
  task = seqio.TaskRegistry.get(task)
  dataset, _, version = task.source._tfds_name.partition(":")
  name, _, config = dataset.partition("/")
  tfds.dataset_builders.store_as_tfds_dataset(
    name=name,
    config=config or None,
    version=version,
    features=tfds_rows.features(task),
    split_datasets={"train": [("0", row)]},
    data_dir=tmp_path / "tfds",
  )
  monkeypatch.setenv("ZOO_DATA_DIR", f"{tmp_path}:{shared_data}")
  assert list(task.source.splits) == ["train"]
  lengths = {"inputs": 64, "targets": 64}
  dataset = task.get_dataset(lengths, split="train", shuffle=False)
  (example,) = dataset.as_numpy_iterator()
  vocabulary = task.output_features["targets"].vocabulary
  assert vocabulary.decode(example["targets"].tolist()) == target
  if inputs is not None:
    assert example["inputs_pretokenized"].decode() == inputs
    assert example["targets_pretokenized"].decode() == target
