"""Likelihoods of fillings, by each model's own means; tables of checkpoints."""

import json

import numpy as np
import pytest
import scipy.special

from tests import programs
from tests import tiny_models
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.probes.questions import Question
from transformer_zoo.evaluation.probes.questions import questions
from transformer_zoo.evaluation.probes.suites import Suite
from transformer_zoo.runs.analysis import probing
from transformer_zoo.runs.loading.loaded_checkpoint import LoadedCheckpoint

BYTES = Vocabulary("bytes")
ASKED = [
  Question("lexical", "en", "A dog is ___ .", "big", "a lot"),
  Question("lexical", "en", "It ___ .", "is", "am"),
  Question("bias", "en", "___ came .", "he", "it"),
]


def opened(architecture, start_id=0):
  model, _ = tiny_models.build(architecture, VOCAB_SIZE=384)
  params = tiny_models.random_parameters(model)
  return LoadedCheckpoint(architecture, 7, model, params, BYTES, start_id)


def logits(found, batch):
  made = programs.apply(
    found.model,
    {"params": found.params},
    {name: np.array([ids], np.int32) for name, ids in batch.items()},
    method="all_logits",
  )["tokens"]
  return scipy.special.log_softmax(made, -1)[0]


def test_a_language_model_continues():
  found = opened("gpt_2", start_id=None)
  answers, _ = probing.answer(found, ASKED, 4)
  before, whole = BYTES.encode("A dog is"), BYTES.encode("A dog is big .")
  logs = logits(found, {"decoder_input_tokens": whole})
  places = range(len(before), len(whole))
  expected = sum(logs[i - 1, whole[i]] for i in places)
  np.testing.assert_allclose(answers[0, 0], [expected, 6], rtol=1e-4)
  # Nothing precedes the gap, nor a start token: the first token is given.
  assert answers[2, 0, 1] == len("he came .") - 1


@pytest.mark.slow
def test_an_encoder_decoder_fills_the_span():
  found = opened("t5_1_1")
  answers, _ = probing.answer(found, ASKED, 4)
  first, second = BYTES.sentinel_ids[:2]
  ids = BYTES.encode("a lot")
  batch = {
    "encoder_input_tokens": [
      *(*BYTES.encode("A dog is"), first, *BYTES.encode("."), 1)
    ],
    "decoder_input_tokens": [0, first, *ids],
    "decoder_target_tokens": [first, *ids, second],
  }
  logs = logits(found, batch)
  expected = sum(logs[i + 1, token] for i, token in enumerate(ids))
  np.testing.assert_allclose(answers[0, 1], [expected, 5], rtol=1e-4)
  assert second not in ids


@pytest.mark.slow
def test_an_encoder_fills_all_masks_at_once():
  found = opened("bert", start_id=None)
  answers, _ = probing.answer(found, ASKED, 4)
  left, right = BYTES.encode("It"), [*BYTES.encode("."), BYTES.eos_id]
  read = [*left, BYTES.mask_id, BYTES.mask_id, *right]
  logs = logits(
    found,
    {"encoder_input_tokens": read, "encoder_token_types": [0] * len(read)},
  )
  ids = BYTES.encode("am")
  expected = sum(logs[len(left) + i, token] for i, token in enumerate(ids))
  np.testing.assert_allclose(answers[1, 1], [expected, 2], rtol=1e-4)


def test_a_pair_of_sentences_has_its_likelihood():
  """Also where the sentences differ in length: sums are compared."""
  found = opened("gpt_2", start_id=None)
  pairs = [Question("number", "own", "He ___ .", "is", "am so")]
  answers, _ = probing.answer(found, pairs, 4, whole=True)
  sums = []
  for sentence in ("He is .", "He am so ."):
    ids = BYTES.encode(sentence)
    logs = logits(found, {"decoder_input_tokens": ids})
    sums.append(sum(logs[i - 1, ids[i]] for i in range(1, len(ids))))
  (score,) = probing.summarize(pairs, answers, whole=True).values()
  assert score["margin"] == pytest.approx(sums[0] - sums[1], abs=1e-3)
  assert score["normalized"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
  ("text", "last"),
  [("A dog is ___ .", BYTES.sentinel_ids[1]), ("A dog ___", BYTES.eos_id)],
)
def test_an_encoder_decoder_ends_the_span_of_a_pair(text, last):
  """Without its end, a filling that begins another one is always likelier."""
  found = opened("t5_1_1")
  pairs = [Question("number", "own", text, "lots", "lot")]
  answers, _ = probing.answer(found, pairs, 4, whole=True)
  first = BYTES.sentinel_ids[0]
  before, after = (BYTES.encode(side) for side in pairs[0].sides)
  for filling, answered in zip(("lots", "lot"), answers[0], strict=True):
    said = [*BYTES.encode(filling), last]
    batch = {
      "encoder_input_tokens": [*before, first, *after, 1],
      "decoder_input_tokens": [0, first, *said[:-1]],
      "decoder_target_tokens": [first, *said],
    }
    logs = logits(found, batch)
    expected = sum(logs[i + 1, token] for i, token in enumerate(said))
    np.testing.assert_allclose(answered, [expected, len(said)], rtol=1e-4)


@pytest.mark.slow
def test_an_encoder_masks_one_token_of_a_sentence_at_a_time():
  found = opened("bert", start_id=None)
  pairs = [Question("number", "own", "It ___", "is", "am")]
  answers, tokens = probing.answer(found, pairs, 4, whole=True)
  ids = BYTES.encode("It am")
  expected = 0.0
  for place, token in enumerate(ids):
    read = [*ids[:place], BYTES.mask_id, *ids[place + 1 :], BYTES.eos_id]
    logs = logits(
      found,
      {"encoder_input_tokens": read, "encoder_token_types": [0] * len(read)},
    )
    expected += logs[place, token]
  np.testing.assert_allclose(answers[0, 1], [expected, len(ids)], rtol=1e-4)
  assert tokens == 2 * len(ids) * 16


SUITE = Suite(
  "agreement",
  ("(2;%match%) < (2;%other%)",),
  (
    {
      "match": {"1": "It", "2": "is", "3": "so"},
      "other": {"1": "It", "2": "am", "3": "so"},
    },
  ),
)


def test_a_language_model_has_surprisals_of_what_precedes_a_region():
  found = opened("gpt_2", start_id=None)
  ((item,), _) = probing.surprisals(found, SUITE, 4)
  for condition, word in (("match", "is"), ("other", "am")):
    ids = BYTES.encode(f"It {word}")
    logs = logits(found, {"decoder_input_tokens": ids})
    expected = -sum(logs[i - 1, ids[i]] for i in range(2, len(ids)))
    assert item[condition, "2"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_an_encoder_masks_one_token_of_a_region_at_a_time():
  found = opened("bert", start_id=None)
  ((item,), _) = probing.surprisals(found, SUITE, 4)
  left, ids, right = (BYTES.encode(text) for text in ("It", "am", "so"))
  expected = 0.0
  for place, token in enumerate(ids):
    masked = [*ids[:place], BYTES.mask_id, *ids[place + 1 :]]
    read = [*left, *masked, *right, BYTES.eos_id]
    logs = logits(
      found,
      {"encoder_input_tokens": read, "encoder_token_types": [0] * len(read)},
    )
    expected -= logs[len(left) + place, token]
  assert item["other", "2"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
  ("right", "number", "interval"),
  # scipy.stats.binomtest(right, number).proportion_ci(method="wilson")
  [(7, 10, [39.68, 89.22]), (0, 5, [0.0, 43.45]), (950, 1000, [93.47, 96.19])],
)
def test_the_interval_is_wilsons(right, number, interval):
  pairs = [Question("kind", "own", "a ___", "b", "c")] * number
  answers = np.ones([number, 2, 2])
  answers[:, 1, 0] = 0.0
  answers[:, 0, 0] = np.where(np.arange(number) < right, 1.0, -1.0)
  (score,) = probing.summarize(pairs, answers, whole=True).values()
  assert score["interval"] == pytest.approx(interval, abs=0.01)
  table = probing.table_of_pairs(
    [{"checkpoint": "a", "scores": {"own/kind": score}}]
  )
  assert table.splitlines()[1].startswith(f"own/kind  {number:>6}")


def test_batches_change_nothing():
  found = opened("gpt_2")
  some = questions(["ko"], ["syntax"])[:9]
  one, _ = probing.answer(found, some, 2)
  other, _ = probing.answer(found, some, 16)
  np.testing.assert_allclose(one, other, rtol=1e-4)


def test_means_are_compared_where_lengths_differ():
  answers = np.array(
    [
      # -6 of 3 tokens is more than -5 of 2 in the mean, less in the sum.
      [[-6.0, 3], [-5.0, 2]],
      [[-6.0, 2], [-5.0, 2]],
      [[-1.0, 1], [-1.0, 1]],
    ]
  )
  scores = probing.summarize(ASKED, answers)
  assert scores["en/lexical"] == {
    "questions": 2,
    "accuracy": 50.0,
    "margin": -0.25,
    "normalized": 50.0,
  }
  assert scores["en/bias"]["accuracy"] == 50.0
  spent = {"flops": 123456, "seconds": 1.5, "bytes": 1000}
  text = probing.table(
    [{"checkpoint": "a", "step": 7, "scores": scores, **spent}]
  )
  assert "means over their tokens were compared" in text
  assert "50: neither" in text
  lines = [line.split() for line in text.splitlines()[:2]]
  assert lines[0][4:] == ["FLOPs", "seconds", "bytes"]
  assert lines[1] == ["a", "7", "50.0", "50.0", "1.235e+05", "1.50", "1,000"]


def test_refusals():
  found = opened("t5_1_1")
  with pytest.raises(UserError, match="^there are no questions to ask"):
    probing.answer(found, [], 4)


@pytest.mark.slow
def test_the_command_asks_a_directory(zoo, tmp_path):
  folder = tmp_path / "theirs"
  parameters = tiny_models.write_gpt_2(folder, VOCAB_SIZE=384)
  words = ["probe", folder, folder, "--kinds=lexical,bias", "--languages=en"]
  code, output, error = zoo(*words)
  assert code == 2
  assert "no vocabulary lies beside" in error
  code, output, error = zoo(*words, "--vocabulary=bytes")
  assert code == 0, error
  header, first, second, *notes = output.splitlines()
  assert header.split() == [
    *("checkpoint", "step", "en/lexical", "en/bias"),
    *("FLOPs", "seconds", "bytes"),
  ]
  assert first.split()[:5] == second.split()[:5]
  assert len(notes) == 3
  code, output, error = zoo(*words, "--vocabulary=bytes", "--json")
  assert code == 0, error
  found = json.loads(output)
  assert 0 <= found[0]["scores"]["en/lexical"]["accuracy"] <= 100
  kernels = sum(a.size for n, a in parameters.items() if n.endswith("kernel"))
  # Every token meets every kernel, which is less than what a pass computes.
  assert found[0]["flops"] > 2 * kernels * found[0]["tokens"] > 0
