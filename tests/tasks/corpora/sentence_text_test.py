"""Corpora by sentence: prepared, and read with SeqIO, they are the same."""

import itertools

import numpy as np
import pytest
import seqio

from transformer_zoo.data.features.converters import Encoder
from transformer_zoo.data.loader.evaluation_split import EvaluationSplit
from transformer_zoo.data.prepare import preparation
from transformer_zoo.data.storage.token_stream import TokenStream

LENGTHS = {"inputs": 128, "targets": 128}
KEYS = {
  "inputs": "encoder_input_tokens",
  "targets": "encoder_target_tokens",
  "weights": "encoder_loss_weights",
  "token_types": "encoder_token_types",
}


@pytest.mark.slow
@pytest.mark.parametrize(
  ("name", "label"),
  [
    ("wikitext2_text_bert_next_sentence", "next_sentence"),
    ("wikitext2_text_albert_sentence_order", "sentence_order"),
  ],
)
def test_prepared_examples_are_those_of_seqio(
  name, label, shared_data, tmp_path
):
  mixture = preparation.prepare(
    name,
    prepared_dir=tmp_path,
    data_dir=str(shared_data),
    splits=["validation"],
    report=lambda _: None,
  )
  (task,) = mixture.tasks
  vocabulary = task.vocabulary
  stream = TokenStream(task, "validation")
  assert len(stream.document_ends) == 60
  assert 6_000 < len(stream.sentence_ends) < 9_000
  assert set(stream.document_ends) <= set(stream.sentence_ends)
  split = EvaluationSplit(
    task,
    "validation",
    LENGTHS,
    16,
    max_examples=16,
    converter=Encoder(),
    grouped=False,
  )
  (batch,) = (some.arrays for some in split)
  dataset = seqio.get_mixture_or_task(name).get_dataset(
    LENGTHS, "validation", shuffle=False
  )
  examples = itertools.islice(dataset.as_numpy_iterator(), 16)
  for row, example in enumerate(examples):
    size = len(example["inputs"])
    for name_there, key in KEYS.items():
      ours = batch[key][row]
      np.testing.assert_array_equal(ours[:size], example[name_there])
      assert not ours[size:].any()  # padding is 0 in both vocabularies
    assert batch[label][row] == example[label][0]
    text = example["targets"]
    assert text[0] == vocabulary.cls_id and text[-1] == vocabulary.sep_id
    assert np.count_nonzero(text == vocabulary.sep_id) == 2
