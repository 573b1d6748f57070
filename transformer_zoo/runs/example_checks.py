"""What examples that are to be answered have to have."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.errors import UserError

Example = Mapping[str, Any]


def check(
  examples: Iterable[Example], features: Sequence[str]
) -> Iterator[Example]:
  """Yields the examples.

  Raises:
    UserError: one lacks a feature, or it, or its `prefix`, is no text.
  """
  for number, example in enumerate(examples, 1):
    for feature in features:
      if not isinstance(example.get(feature), str):
        problem = (
          f"its {feature!r} is {example[feature]!r}, which is no text"
          if feature in example
          else f"it has {', '.join(map(repr, example)) or 'nothing'}"
        )
        raise UserError(
          f"example {number} has no text called {feature!r}; {problem}"
        )
    if not isinstance(example.get("prefix", ""), str):
      raise UserError(
        f"the prefix of example {number} is {example['prefix']!r}; give the "
        "text that its answer is to begin with"
      )
    yield example


def check_prefixes(
  examples: Iterable[Example], vocabulary: Vocabulary, decoding: DecodingOptions
) -> Iterator[Example]:
  """Yields the examples.

  Raises:
    UserError: the `prefix` of one is longer than an output may be.
  """
  for number, example in enumerate(examples, 1):
    try:
      decoding.check_prefix(
        len(vocabulary.encode_targets(example.get("prefix", "")))
      )
    except UserError as error:
      raise UserError(f"example {number}: {error}") from None
    yield example


def check_prompts(
  examples: Iterable[Example], vocabulary: Vocabulary
) -> Iterator[Example]:
  """Yields the examples, whose inputs a model reads without a start token.

  Raises:
    UserError: the inputs of one have no token.
  """
  for number, example in enumerate(examples, 1):
    text = example["inputs"]
    if not text.strip() and not vocabulary.encode_prompt(text):
      raise UserError(
        f"example {number} has no token in 'inputs', and "
        "start_before_prompt=False leaves nothing to begin with; give it a "
        "text, or leave it out"
      )
    yield example
