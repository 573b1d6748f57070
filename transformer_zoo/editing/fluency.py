"""Texts that an edited model writes: fluent, and consistent with the new fact.

The last two scores of CounterFact (Meng et al. 2022, section 3.3), times 100 as
they are printed. *Fluency* is the weighted mean of the entropies of a text's
pairs and triples of words, in bits; a text that repeats itself has a low one.
*Consistency* is the cosine of the TF-IDF vectors of the texts and of texts
about subjects of which the new object is true. The authors' words are nltk's,
and their inverse document frequencies Wikipedia's; here words are runs of
letters and single marks, and frequencies are those of the reference texts.
"""

import collections
from collections.abc import Sequence
import re

import jax
import numpy as np

from transformer_zoo.editing import rome
from transformer_zoo.editing.facts import Fact
from transformer_zoo.editing.rome import Memory
from transformer_zoo.errors import UserError

# The number of words -> the weight of their entropy, in the authors' code.
_WEIGHTS = {2: 2 / 3, 3: 4 / 3}
_WORD = re.compile(r"\w+|[^\w\s]")


def score(
  memory: Memory, fact: Fact, key: jax.Array, *, length: int = 100
) -> dict[str, float]:
  """Measures the texts that a model writes after `Fact.generations`.

  Args:
    memory: The model, with its parameters.
    fact: The fact.
    key: A random key.
    length: The number of tokens of a text, the prompt among them.

  Returns:
    `fluency`, and `consistency` if the fact has references; nothing if it has
    no prompts.
  """
  if not fact.generations:
    return {}
  texts = generate(memory, fact.generations, key, length=length)
  found = {"fluency": 100 * float(np.mean([entropy(text) for text in texts]))}
  if fact.references:
    found["consistency"] = 100 * similarity(texts, fact.references)
  return found


def generate(
  memory: Memory, prompts: Sequence[str], key: jax.Array, *, length: int = 100
) -> list[str]:
  """Returns texts that begin with prompts, by `rome.sampled`.

  Args:
    memory: The model.
    prompts: The beginnings.
    key: A random key.
    length: The number of tokens of a text; fewer if the model has fewer
      positions.

  Raises:
    UserError: A prompt leaves no room for another token.
  """
  vocabulary, start_id = memory.reader.vocabulary, memory.reader.start_id
  start = [] if start_id is None else [start_id]
  positions = memory.model.offers.num_positions("decoder")
  length = min(length, positions or length)
  begun_BL = np.full((len(prompts), length), vocabulary.pad_id, np.int32)
  given_B = np.zeros(len(prompts), np.int32)
  for row, prompt in enumerate(prompts):
    ids = [*start, *vocabulary.encode(prompt)]
    if not 0 < len(ids) < length:
      raise UserError(
        f"the prompt {prompt!r} has {len(ids)} tokens, and a text {length}; it "
        "needs one or more, and room for another"
      )
    begun_BL[row, : len(ids)] = ids
    given_B[row] = len(ids)
  made_BL = rome.sampled(memory, key, begun_BL, given_B, stop=length)
  return [vocabulary.decode(row) for row in made_BL[:, len(start) :]]


def entropy(text: str) -> float:
  """The mean of a text's entropies of pairs and triples, weighted, in bits."""
  words = _WORD.findall(text)
  found = 0.0
  for size, weight in _WEIGHTS.items():
    runs = zip(*(words[start:] for start in range(size)), strict=False)
    counts = np.array(list(collections.Counter(runs).values()), float)
    shares = counts / counts.sum()
    found += weight * -float(np.sum(shares * np.log2(shares)))
  return found / len(_WEIGHTS)


def similarity(texts: Sequence[str], references: Sequence[str]) -> float:
  """The cosine of the TF-IDF vectors of texts and of references."""
  from sklearn.feature_extraction.text import TfidfVectorizer

  vectorizer = TfidfVectorizer().fit(references)
  one, other = vectorizer.transform([" ".join(texts), " ".join(references)])
  return float((one @ other.T).toarray()[0, 0])
