"""Rows of GPT: streams of tokens, and pairs in both orders."""

import numpy as np
import pytest

from transformer_zoo.corruption.ragged import Ragged
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import forms
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError

START, DELIMITER, EXTRACT = 300, 301, 302
IDS = {
  "first": np.array([5, 6, 7], np.int32),
  "second": np.array([8, 9], np.int32),
}


def make(form, length, **options):
  return forms.of_task(
    {"form": form},
    Vocabulary("bytes"),
    length,
    separators=1,
    answering="last",
    first_new_id=START,
    **options,
  )


def test_texts_stand_between_new_tokens_and_the_last_one_answers():
  row, _ = make("classes", 20)(IDS, {"label": 2}, 0)
  expected = [START, 5, 6, 7, DELIMITER, 8, 9, EXTRACT]
  assert row["inputs"].tolist() == expected
  assert row["targets"].tolist() == [0] * 7 + [2]
  assert row["weights"].tolist() == [0] * 7 + [1]
  alone = {**IDS, "second": IDS["second"][:0]}
  row, _ = make("classes", 20)(alone, {"label": 1}, 0)
  assert row["inputs"].tolist() == [START, 5, 6, 7, EXTRACT]


@pytest.mark.parametrize("form, label", [("classes", 1), ("number", 2.5)])
def test_a_pair_stands_in_both_orders_and_is_answered_once(form, label):
  row, _ = make(form, 20, both_orders=True)(IDS, {"label": label}, 0)
  turned = [START, 8, 9, DELIMITER, 5, 6, 7, EXTRACT]
  straight = [START, 5, 6, 7, DELIMITER, 8, 9, EXTRACT]
  assert row["inputs"].tolist() == [*turned, *straight]
  assert row["segment_lengths"].tolist() == [8, 8]
  assert row["other_order"].tolist() == [7]
  assert row["weights"].tolist() == [0] * 15 + [1]
  # Half of the row for each; the longer text is cut.
  short, _ = make(form, 14, both_orders=True)(IDS, {"label": label}, 0)
  assert short["segment_lengths"].tolist() == [7, 7]
  alone = {**IDS, "second": IDS["second"][:0]}
  row, _ = make(form, 20, both_orders=True)(alone, {"label": label}, 0)
  assert row["other_order"].tolist() == [-1]
  assert row["segment_lengths"].tolist() == [5]


def test_the_converter_lays_the_places_of_other_orders_out():
  converter = converters.Encoder(
    form="classes", answering="last", first_new_id=START, both_orders=True
  )
  row, _ = make("classes", 20, both_orders=True)(IDS, {"label": 1}, 0)
  batch = converter(
    {name: Ragged.of([value]) for name, value in row.items()},
    np.arange(1),
    num_rows=2,
    lengths={"inputs": 20},
    packing=False,
    pad_id=0,
  )
  assert batch["encoder_other_order"].tolist() == [7, -1]
  assert batch["encoder_segment_ids"][0].tolist() == [1] * 8 + [2] * 8 + [0] * 4
  shapes = converter.shapes({"inputs": 20}, 2, False)
  assert {n: a.shape for n, a in batch.items()} == {
    name: shapes[name] for name in batch
  }


def test_other_forms_have_no_second_order():
  with pytest.raises(UserError, match="both_orders is True, but the form is"):
    converters.Encoder(form="choices", answering="last", both_orders=True)
  with pytest.raises(UserError, match="and the first token answers"):
    converters.Encoder(form="classes", both_orders=True)
