"""The corpus and its vocabulary: repeatable, of the promised shape."""

import collections
import itertools
import re

import numpy as np
import pytest
import sentencepiece

from tasks.miniature import vocabulary
from tasks.miniature.documents import domains
from tasks.miniature.world import grammar
from tasks.miniature.world import world


def read(domain, start, count, seed=0):
  return list(domains.documents(domain, seed=seed, start=start, count=count))


@pytest.mark.parametrize("domain", domains.DOMAINS)
def test_document_is_a_function_of_domain_seed_and_index(domain):
  texts = read(domain, 0, 40)
  assert texts[25:30] == read(domain, 25, 5)
  assert texts != read(domain, 0, 40, seed=1)
  assert all("\n" not in t and "{" not in t.replace("{ r", "") for t in texts)


def test_domains_differ_and_unfiltered_is_littered():
  texts = {d: " ".join(read(d, 0, 200)) for d in domains.DOMAINS}
  assert "talu" in texts["chronicle"] and "talu" not in texts["review"]
  assert "cookies" in texts["chronicle_unfiltered"]
  assert "cookies" in texts["review_unfiltered"]
  clean = read("chronicle", 0, 200)
  sentences = {s for t in clean for s in t.split(". ")}
  kept = {s for s in texts["chronicle_unfiltered"].split(". ")} & sentences
  assert 0.3 < len(kept) / len(sentences) < 0.9


def test_documents_are_short():
  texts = read("chronicle", 0, 500)
  words = [len(t.split()) for t in texts]
  assert 20 <= np.quantile(words, 0.05) and max(words) <= 90


def test_words_of_a_document_come_again():
  """Names do: half of the gaps in names can be filled from the text."""
  nouns = world.World().everything.nouns
  names = {c[0] for kind in ("woman", "man") for c in nouns[kind]}
  seen, again = 0, 0
  for text in read("chronicle", 0, 2_000):
    found = collections.Counter(
      word for word in text.replace(".", " ").split() if word in names
    )
    seen += sum(found.values())
    again += sum(count for count in found.values() if count > 1)
  assert again / seen > 0.5


def test_frequent_words_are_many_times_as_frequent_as_rare_ones():
  words = " ".join(read("chronicle", 0, 10_000)).replace(".", " ").split()
  counts = collections.Counter(words)
  for kind in ("animal", "tool", "praise", "blame"):
    nouns = world.World().by_frequency.nouns[kind]
    uses = [sum(counts[form] for form in concept) for concept in nouns]
    assert uses[0] > 3 * uses[-1]


def test_often_ranks_by_place():
  dice = world.Dice(0, 0, 0)
  counts = collections.Counter(dice.often("abcdefg") for _ in range(20_000))
  assert set(counts) == set("abcdefg")
  assert [word for word, _ in counts.most_common()] == list("abcdefg")
  assert counts["a"] == pytest.approx(20_000 / 3, rel=0.05)  # log2 / log8


@pytest.mark.parametrize(
  "name, second", [("often", 0.585), ("seldom", 0.443), ("rarely", 1 / 2.25)]
)
def test_ranked_choices_fall_as_they_say(name, second):
  """The share of the second of three is `second` of the first's."""
  dice = world.Dice(0, 1, 2)
  counts = collections.Counter(
    getattr(dice, name)("abc") for _ in range(20_000)
  )
  assert counts["b"] / counts["a"] == pytest.approx(second, rel=0.05)
  assert 0 < counts["c"] < counts["b"]


@pytest.mark.slow
@pytest.mark.parametrize(
  "number, least",
  [
    (20_000, 1),
    # All that is trained on.
    pytest.param(100_000, 16, marks=pytest.mark.slow),
  ],
)
def test_every_open_word_is_in_the_corpus(number, least):
  text = " ".join(read("chronicle", 0, number))
  counts = collections.Counter(re.findall("[a-z]+", text))
  whole = world.World().everything
  forms = [f for cs in whole.nouns.values() for c in cs for f in c]
  forms += [w for pole in whole.poles for words in pole for w in words]
  assert min((counts[f], f) for f in forms) >= (least,)


def test_grammar():
  assert grammar.a("otter") == "an otter" and grammar.a("fox") == "a fox"
  plurals = {"fox": "foxes", "cherry": "cherries", "donkey": "donkeys"}
  plurals |= {"scarf": "scarves", "potato": "potatoes", "hen": "hens"}
  for one, many in plurals.items():
    assert grammar.plural(one) == many
  assert world.verb("carry") == ("carry", "carries", "carried")
  assert world.verb("buy:bought") == ("buy", "buys", "bought")


def test_second_language_is_one_to_one():
  words = world.World().second_language
  assert len(set(words.values())) == len(words)
  english = set(
    itertools.chain.from_iterable(
      c for cs in world.World().everything.nouns.values() for c in cs
    )
  )
  assert not english & set(words.values())


@pytest.mark.slow
def test_vocabulary_has_the_same_bytes_when_trained_again(tmp_path):
  vocabulary.train_vocabulary(str(tmp_path / "again.model"))
  with open(vocabulary.PATH, "rb") as file:
    assert (tmp_path / "again.model").read_bytes() == file.read()


def test_vocabulary_spells_the_corpus_with_whole_words():
  model = sentencepiece.SentencePieceProcessor(model_file=vocabulary.PATH)
  assert (model.pad_id(), model.eos_id(), model.unk_id()) == (0, 1, 2)
  assert model.bos_id() == -1 and model.get_piece_size() == vocabulary.SIZE
  texts = read("chronicle", 50_000, 500)
  ids = [model.encode(text) for text in texts]
  assert not any(2 in row for row in ids)
  assert [model.decode(row) for row in ids] == texts
  words = sum(len(text.split()) for text in texts)
  assert sum(map(len, ids)) / words < 1.4
