"""Denoising: the objectives of the T5 paper's table 3, specs, refusals."""

import json

import numpy as np
import pytest

from tests.corruption import vocabulary as vocabularies
from transformer_zoo import corruption
from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import denoising
from transformer_zoo.corruption import Everything
from transformer_zoo.corruption import Fragment
from transformer_zoo.corruption import Iid
from transformer_zoo.corruption import RandomPrefix
from transformer_zoo.corruption import RandomSpans
from transformer_zoo.corruption import WordSpans
from transformer_zoo.corruption.draws import Draws
from transformer_zoo.errors import UserError

TEXT = "Thank you for inviting me to your party last week .".split()
WORDS = [*TEXT, "apple"]
SENTINELS = ("X", "Y", "Z")
FIRST = 10
VOCABULARY = vocabularies.t5(
  sentinel_ids=np.array([97, 96, 95]), size=FIRST + len(WORDS) + 90
)
LENGTHS = {"inputs": 512, "targets": 512}


class _Fixed:
  """A mask over given words."""

  def __init__(self, *words):
    self._words = words

  def __call__(self, draws, length, rows=None):
    mask = [word in self._words for word in TEXT]
    return np.tile(np.array(mask), (draws.batch_size, 1))


def _corrupt(noise, inputs, targets, draws=None):
  """Returns the two sides of the paper's sentence as words."""
  tokens = FIRST + np.arange(len(TEXT), dtype=np.int32)[None]
  pair = Denoising(noise, inputs, targets)(
    tokens, draws or Draws(0, np.arange(1)), VOCABULARY
  )

  def word(token):
    if token in VOCABULARY.sentinel_ids:
      return f"<{SENTINELS[97 - token]}>"
    return WORDS[token - FIRST]

  return tuple(
    " ".join(map(word, pair[side].values.tolist()))
    for side in ("inputs", "targets")
  )


# Raffel et al. 2020, table 3 (and t5_tables/table03), with its mask fixed.
# There <M> is the one mask token, here the first sentinel, as in the code.
@pytest.mark.parametrize(
  "noise, inputs, targets, expected",
  [
    (
      _Fixed("Thank", "you", "for", "inviting"),
      "drop_nonnoise_tokens",
      "drop_noise_tokens",
      ("Thank you for inviting", "me to your party last week ."),
    ),
    (
      _Fixed("for", "inviting", "last"),
      "noise_token_to_sentinel",
      "keep",
      ("Thank you <X> <X> me to your party <X> week .", " ".join(TEXT)),
    ),
    (
      _Fixed("for", "inviting", "last"),
      "noise_span_to_unique_sentinel",
      "nonnoise_span_to_unique_sentinel",
      # The paper closes the targets with <Z>: the text after the last span.
      (
        "Thank you <X> me to your party <Y> week .",
        "<X> for inviting <Y> last <Z>",
      ),
    ),
    (
      _Fixed("for", "inviting", "last"),
      "drop_noise_tokens",
      "drop_nonnoise_tokens",
      ("Thank you me to your party week .", "for inviting last"),
    ),
    (
      _Fixed("for", "inviting", "me", "your", "party", "last"),
      "noise_span_to_unique_sentinel",
      "nonnoise_span_to_unique_sentinel",
      (
        "Thank you <X> to <Y> week .",
        "<X> for inviting me <Y> your party last <Z>",
      ),
    ),
  ],
)
def test_table_3(noise, inputs, targets, expected):
  assert _corrupt(noise, inputs, targets) == expected


class _Scripted(Draws):
  """Draws that were decided before."""

  def __init__(self, **drawn):
    super().__init__(0, [0])
    self._drawn = drawn

  def uniform(self, number):
    return np.array([self._drawn["uniform"]])

  def integers(self, bounds, number):
    return np.array([self._drawn["integers"]])

  def permutations(self, lengths):
    return np.array([self._drawn["permutation"]])


def test_table_3_bert_style_where_words_are_drawn():
  # "for" and "inviting" are masked, "last" becomes a random word: "apple".
  apple = FIRST + WORDS.index("apple") - 3
  draws = _Scripted(
    uniform=[0.0 if word == "last" else 0.5 for word in TEXT],
    integers=[apple] * len(TEXT),
  )
  assert _corrupt(
    _Fixed("for", "inviting", "last"),
    "noise_token_to_random_token_or_sentinel",
    "keep",
    draws,
  ) == ("Thank you <X> <X> me to your party apple week .", " ".join(TEXT))


def test_table_3_deshuffling_where_the_order_is_drawn():
  printed = "party me for your to . last fun you inviting week Thank"
  # "fun" is not in the text: the table has a word too many.
  printed = printed.replace(" fun", "")
  order = [TEXT.index(word) for word in printed.split()]
  assert _corrupt(
    Everything(),
    "permute_noise_tokens",
    "keep",
    _Scripted(permutation=order),
  ) == (printed, " ".join(TEXT))


def test_inputs_and_targets_share_the_mask_and_not_the_draws():
  corrupt = Denoising(
    Iid(0.5), "noise_token_to_random_token", "noise_token_to_random_token"
  )
  tokens = np.full((20, 50), 7, np.int32)
  vocabulary = vocabularies.t5(1, 10**6)
  pair = corrupt(tokens, Draws(0, np.arange(20)), vocabulary)
  inputs, targets = pair["inputs"].values, pair["targets"].values
  np.testing.assert_array_equal(inputs != 7, targets != 7)
  assert (inputs[inputs != 7] != targets[inputs != 7]).mean() > 0.99


@pytest.mark.parametrize(
  "corrupt, lengths, expected",
  [
    (Denoising(Iid(0.15)), {"inputs": 512, "targets": 192}, 511),
    (Denoising(RandomSpans()), {"inputs": 512, "targets": 114}, 568),
    (
      Denoising(RandomPrefix(), "drop_nonnoise_tokens", "drop_noise_tokens"),
      {"inputs": 512, "targets": 512},
      511,
    ),
    (
      Denoising(Everything(), "nothing", "keep"),
      {"inputs": 1, "targets": 512},
      511,
    ),
  ],
)
def test_raw_length(corrupt, lengths, expected):
  assert corrupt.raw_length(lengths) == expected
  vocabulary = vocabularies.t5(400, 900)
  corrupt.check(lengths, vocabulary)


@pytest.mark.parametrize(
  "corrupt, lengths, message",
  [
    (
      Denoising(Iid(0.15), "noise_token_to_sentinel", "keep"),
      {"inputs": 512, "targets": 114},
      r"Iid \(noise_density 0.15\) of 511 tokens makes targets of 512 tokens "
      "where 114 are allowed",
    ),
    (
      Denoising(Everything(), "permute_noise_tokens", "keep"),
      {"inputs": 2, "targets": 9},
      "Inputs of 2 tokens are too short for Everything; give them at least 8",
    ),
  ],
)
def test_check_refuses(corrupt, lengths, message):
  with pytest.raises(UserError, match=message):
    corrupt.check(lengths, VOCABULARY)


def test_fields_are_checked():
  with pytest.raises(
    UserError, match="named 'drop_noise'; did you mean 'drop_"
  ):
    Denoising(Iid(), "drop_noise")
  with pytest.raises(UserError, match="noise is 0.15; it must be a noise mask"):
    Denoising(0.15)


@pytest.mark.parametrize(
  "corrupt",
  [
    Denoising(Iid(0.25), "drop_noise_tokens", "drop_nonnoise_tokens"),
    Denoising(RandomSpans(random_roll=True)),
    Denoising(WordSpans(0.15, (1.0, 0.5)), "noise_token_to_sentinel", "keep"),
  ],
)
def test_spec_goes_through_json(corrupt):
  spec = json.loads(json.dumps(corruption.to_spec(corrupt)))
  assert corruption.from_spec(spec) == corrupt
  assert spec["noise"]["name"] == type(corrupt.noise).__name__


def test_a_vocabulary_without_a_mask_is_refused():
  masking = Denoising(Iid(), "noise_token_to_sentinel", "keep")
  with pytest.raises(UserError, match="noise_token_to_sentinel hides tokens"):
    masking.check(LENGTHS, vocabularies.bert(mask_id=None))
  with pytest.raises(UserError, match="but the vocabulary has 0 sentinel ids"):
    Denoising(Iid()).check(LENGTHS, vocabularies.bert())


def test_a_rare_overrun_does_not_end_a_run():
  # 1 example in 10^8 of the baseline has more spans than T5's 100 sentinels.
  noise = Iid(0.15)
  tokens = np.tile(np.arange(3, 54, dtype=np.int32), (400, 1))
  masks = noise(Draws(0, np.arange(400)), 51)
  name = "noise_span_to_unique_sentinel"
  few = vocabularies.t5(int(denoising.num_sentinels(name, masks).max()) - 3)
  made = Denoising(noise)(tokens, Draws(0, np.arange(400)), few)
  for inputs, targets, text in zip(
    made["inputs"].rows(), made["targets"].rows(), tokens, strict=True
  ):
    both = np.concatenate([inputs, targets])
    pieces = both[~np.isin(both, few.sentinel_ids)]
    np.testing.assert_array_equal(np.sort(pieces), text)
    # Noise without a sentinel has stayed, and every span has its own.
    for side in (inputs, targets):
      sentinels = side[np.isin(side, few.sentinel_ids)]
      assert sentinels.tolist() == few.sentinel_ids[: len(sentinels)].tolist()


def test_mass_itself():
  corrupt = Denoising(
    Fragment(),
    "noise_token_to_mask_random_or_same_token",
    "drop_nonnoise_tokens",
  )
  tokens = vocabularies.text(2000, 100)
  bert = vocabularies.bert()
  made = corrupt(tokens, Draws(0, np.arange(2000)), bert)
  assert corrupt.check({"inputs": 101, "targets": 51}, bert) == 0
  inputs = made["inputs"].values.reshape(tokens.shape)
  fragments = made["targets"].values.reshape(2000, 50)
  for row in range(2000):
    (first,) = [
      place
      for place in range(51)
      if (tokens[row, place : place + 50] == fragments[row]).all()
    ]
    same = inputs[row] == tokens[row]
    assert same[:first].all() and same[first + 50 :].all()
  masked = (inputs == vocabularies.MASK).sum() / fragments.size
  assert masked == pytest.approx(0.8, abs=0.005)
  kept = ((inputs == tokens).sum() - fragments.size) / fragments.size
  assert kept == pytest.approx(0.1, abs=0.005)
