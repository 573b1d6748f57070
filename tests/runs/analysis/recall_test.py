"""Precision at 1, of all tokens and of the objects of a relation."""

import numpy as np
import pytest

from tests.runs.analysis import probing_test
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.probes.relations import Relation
from transformer_zoo.runs.analysis import recall

BYTES = probing_test.BYTES
TEXT = "A dog is ___ ."
OBJECTS = ("a", "b", "big")


def relation(answer, objects=OBJECTS):
  return Relation("own/P1", [(TEXT, answer)], objects)


def logits_after(found, read):
  """Log-probabilities of what follows tokens, at every place."""
  return probing_test.logits(found, {"decoder_input_tokens": read})


def test_a_language_model_reads_what_stands_before():
  found = probing_test.opened("gpt_2", start_id=None)
  before = BYTES.encode("A dog is")
  means = {}
  for each in OBJECTS:
    ids = BYTES.encode(f"A dog is {each}")
    logs = logits_after(found, ids)
    places = range(len(before), len(ids))
    means[each] = np.mean([logs[i - 1, ids[i]] for i in places])
  best = max(means, key=means.get)
  for answer in OBJECTS:
    scores = recall.score(found, relation(answer), 4)
    assert scores["typed_precision"] == 100 * (answer == best)
    # A space and a letter are two bytes: no object is one token.
    assert scores["facts"] == 0 and "precision" not in scores


@pytest.mark.slow
def test_an_encoder_fills_masks():
  found = probing_test.opened("bert", start_id=None)
  left, right = BYTES.encode("A dog is"), [*BYTES.encode("."), BYTES.eos_id]
  means = {}
  for each in OBJECTS:
    ids = BYTES.encode(each)
    read = [*left, *[BYTES.mask_id] * len(ids), *right]
    logs = probing_test.logits(
      found,
      {"encoder_input_tokens": read, "encoder_token_types": [0] * len(read)},
    )[len(left) :]
    means[each] = np.mean([logs[i, token] for i, token in enumerate(ids)])
    if len(ids) == 1:
      first = logs[0]
  best = max(means, key=means.get)
  for answer in OBJECTS:
    scores = recall.score(found, relation(answer), 4)
    assert scores["typed_precision"] == 100 * (answer == best)
  likeliest = chr(int(np.argmax(first[3:259])))
  (wanted, other) = ("a", "b") if first[100] > first[101] else ("b", "a")
  for answer in (wanted, other):
    scores = recall.score(found, relation(answer, ()), 4, words=("a", "b"))
    assert scores == {"facts": 1, "precision": 100.0 * (answer == wanted)}
    scores = recall.score(found, relation(answer, ()), 4)
    assert scores["precision"] == 100.0 * (answer == likeliest)
  with pytest.raises(UserError, match="none of the words is one token"):
    recall.score(found, relation("a", ()), 4, words=("big",))


@pytest.mark.slow
def test_an_encoder_decoder_fills_the_span():
  found = probing_test.opened("t5_1_1")
  first, _ = BYTES.sentinel_ids[:2]
  ids = BYTES.encode("big")
  batch = {
    "encoder_input_tokens": [
      *(*BYTES.encode("A dog is"), first, *BYTES.encode("."), 1)
    ],
    "decoder_input_tokens": [0, first, *ids],
    "decoder_target_tokens": [first, *ids, 1],
  }
  logs = probing_test.logits(found, batch)
  means = {"big": np.mean([logs[i + 1, token] for i, token in enumerate(ids)])}
  means |= {each: logs[1, BYTES.encode(each)[0]] for each in "ab"}
  best = max(means, key=means.get)
  for answer in OBJECTS:
    scores = recall.score(found, relation(answer), 4)
    assert scores["typed_precision"] == 100 * (answer == best)


def test_the_table_has_a_row_for_each_relation():
  scores = {
    "de/P1": {"facts": 2, "precision": 50.0, "typed_facts": 3},
    "mean": {"precision": 50.0},
  }
  lines = recall.table([{"checkpoint": "a", "scores": scores}]).splitlines()
  assert lines[1].split() == ["de/P1", "2", "3", "50.0", "-"]
  assert lines[2].split() == ["mean", "50.0", "-"]
