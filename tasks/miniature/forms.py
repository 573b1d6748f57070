"""The suite's supervised tasks in the forms of an encoder.

The sources give both texts of each example; the texts of a form are parts of
the inputs: 'mini_mrpc sentence1: A sentence2: B' -> 'A' and 'B'. Summaries and
translations have no such form.
"""

from collections.abc import Mapping
import functools
import re

import seqio
import tensorflow as tf

from tasks.formats import forms
from tasks.miniature import source
from tasks.miniature import supervised as _supervised  # noqa: F401 (registers what has forms)
from tasks.miniature.world.world import THINGS
from transformer_zoo.data.features.forms import FEATURES

_FEATURES = {
  name: seqio.Feature(source.FEATURES["inputs"].vocabulary, add_eos=False)
  for name in FEATURES
}


class Part:
  """The text of a field of the inputs.

  Attributes:
    pattern: The inputs, with one group in the place of the field.
  """

  def __init__(self, inputs: str, field: str):
    """Names a field.

    Args:
      inputs: The template of the inputs, as in `supervised.py`.
      field: One of the fields in its braces.
    """
    # Every other piece is the name of a field.
    pieces = re.split(r"\{(\w+)\}", inputs)
    self.pattern = "".join(
      ("(.*)" if piece == field else ".*") if i % 2 else re.escape(piece)
      for i, piece in enumerate(pieces)
    )

  def __call__(self, example: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns the text of an example; the inputs must match the template."""
    matches = tf.strings.regex_full_match(example["inputs"], self.pattern)
    is_known = tf.debugging.Assert(
      matches, ["the inputs are not of the form:", self.pattern]
    )
    with tf.control_dependencies([is_known]):
      return tf.strings.regex_replace(example["inputs"], self.pattern, r"\1")


forms.register_classes(
  "mini_cola",
  Part("mini_cola sentence: {sentence}", "sentence"),
  classes=("unacceptable", "acceptable"),
  features=_FEATURES,
)
forms.register_classes(
  "mini_sst2",
  Part("mini_sst2 sentence: {sentence}", "sentence"),
  classes=("negative", "positive"),
  features=_FEATURES,
)

_MRPC = "mini_mrpc sentence1: {sentence1} sentence2: {sentence2}"
forms.register_classes(
  "mini_mrpc",
  Part(_MRPC, "sentence1"),
  Part(_MRPC, "sentence2"),
  classes=("not_equivalent", "equivalent"),
  features=_FEATURES,
)

_STSB = "mini_stsb sentence1: {sentence1} sentence2: {sentence2}"
forms.register_number(
  "mini_stsb",
  Part(_STSB, "sentence1"),
  Part(_STSB, "sentence2"),
  label="targets",
  features=_FEATURES,
)

forms.register_embedding(
  "mini_stsb",
  [Part(_STSB, "sentence1"), Part(_STSB, "sentence2")],
  label=functools.partial(forms.number, label="targets"),
  features=_FEATURES,
)

_NLI = "mini_nli hypothesis: {hypothesis} premise: {premise}"
forms.register_classes(
  "mini_nli",
  Part(_NLI, "premise"),
  Part(_NLI, "hypothesis"),
  classes=("entailment", "neutral", "contradiction"),
  features=_FEATURES,
)

forms.register_classes(
  "mini_copa",
  Part(
    "mini_copa premise: {premise} effect: {choice1} or {choice2}?", "premise"
  ),
  classes=("bad", "good"),
  features=_FEATURES,
)

_WIC = "mini_wic sentence: {sentence} word: {word}, {sense1} or {sense2}?"
forms.register_classes(
  "mini_wic",
  Part(_WIC, "sentence"),
  Part(_WIC, "word"),
  classes=THINGS,
  features=_FEATURES,
)
forms.register_classes(
  "mini_wsc",
  Part("mini_wsc text: {text} referent: {kind1} or {kind2}?", "text"),
  classes=THINGS,
  features=_FEATURES,
)

_SQUAD = "mini_squad question: {question} context: {context}"
forms.register_spans(
  "mini_squad",
  Part(_SQUAD, "question"),
  Part(_SQUAD, "context"),
  answers=lambda example: example["answers"],
  features=_FEATURES,
)
