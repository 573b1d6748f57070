"""Winograd schemas in text-to-text form: to whom does a pronoun refer?

`judged` asks whether a given noun is the referent; the others ask for the
referent itself, with the pronoun between asterisks, and so train and score
together (WSC, DPR, WNLI). The strings are as in t5 `data/preprocessors.py`,
also where a span holds a character that means something in a regular
expression: t5 takes spans as patterns.
"""

from collections.abc import Sequence
import re

import numpy as np
import seqio
import tensorflow as tf

from tasks.formats import labelled_text

_PRONOUNS = frozenset("he she they it her his their them him".split())
_PUNCTUATION = (".", ",", "!", "?")


def recast(premise: bytes, hypothesis: bytes) -> tuple[bytes, bytes]:
  """Returns the premise with its pronoun marked, and the proposed referent.

      'The drain is clogged with hair. It has to be cleaned.',
      'The drain has to be cleaned.'
      -> 'The drain is clogged with hair. *It* has to be cleaned.',
         'The drain'

  Of several pronouns it is the one around which the hypothesis repeats the
  most words, the first of equals.

  Args:
    premise: UTF-8 text.
    hypothesis: UTF-8 text.

  Raises:
    ValueError: the premise has no pronoun, or several spaces in a row before
      it, or signs that are no pattern; or the hypothesis divides the words of
      the referent otherwise than by one space.
  """
  premise, hypothesis = premise.decode(), hypothesis.decode()
  words, repeated = _words(premise), _words(hypothesis)
  places = [i for i, word in enumerate(words) if word in _PRONOUNS]
  if not places:
    raise ValueError(f"the premise {premise!r} has no pronoun")
  try:
    matches = [_match(words[:i], words[i + 1 :], repeated) for i in places]
  except re.error as error:
    raise ValueError(
      f"the premise {premise!r} has signs that are no pattern ({error})"
    ) from error
  best = max(range(len(places)), key=lambda i: matches[i][0])
  referent = _as_written(matches[best][1], hypothesis)
  return _mark_words(premise, places[best]).encode(), referent.encode()


def _words(text: str) -> list[str]:
  """Returns the lower-case words of `text`, one closing mark taken off each."""
  words = (re.sub(r"[.,?!]$", "", w) for w in text.strip().lower().split(" "))
  return [word for word in words if word]


def _match(
  before: Sequence[str], after: Sequence[str], hypothesis: Sequence[str]
) -> tuple[int, str]:
  """Returns how many words around a place are repeated, and what is between.

  Nothing is between where no word is repeated.
  """
  num_after = _num_repeated(after, hypothesis)
  num_before = _num_repeated(before[::-1], hypothesis[::-1])
  if not num_before + num_after:
    return 0, ""
  left = list(before[len(before) - num_before :])
  right = list(after[:num_after])
  # The place may be the start or the end of the hypothesis. The words are
  # patterns, as in t5: a full stop inside one matches any character.
  for pattern in (
    [*left, "(.+)", *right],
    ["^(.+)", *right],
    [*left, "(.+)$"],
  ):
    found = re.search(" ".join(pattern), " ".join(hypothesis))
    if found:
      return num_before + num_after, found.group(1)
  return num_before + num_after, ""


def _num_repeated(words: Sequence[str], within: Sequence[str]) -> int:
  """Returns how many leading words are, as one string, a part of `within`."""
  text = " ".join(within)
  for i in range(len(words)):
    if " ".join(words[: i + 1]) not in text:
      return i
  return len(words)


def _as_written(candidate: str, hypothesis: str) -> str:
  """Returns `candidate` as the hypothesis writes it, never as a possessive."""
  words = candidate.split(" ")
  # Where the match began too early, the noun phrase starts at an article.
  articles = [words.index(a) for a in ("a", "an", "the") if a in words]
  words = words[max(articles, default=0) :]
  pattern = " ".join(re.escape(word) + "[.,?!]?" for word in words)
  found = re.search(pattern, hypothesis, re.IGNORECASE)
  if not found:
    raise ValueError(
      f"the referent {candidate!r} is not so written in the hypothesis "
      f"{hypothesis!r}"
    )
  written = found.group()
  if written.endswith(_PUNCTUATION):
    written = written[:-1]
  if written.endswith("'"):
    return written[:-1]
  return written.removesuffix("'s")


def _mark_words(premise: str, place: int) -> str:
  """Returns the premise with asterisks around its word number `place`."""
  words = premise.split(" ")
  word, mark = words[place], ""
  if not word:
    raise ValueError(f"the premise {premise!r} has several spaces in a row")
  if word.endswith(_PUNCTUATION):
    word, mark = word[:-1], " " + word[-1]
  return " ".join([*words[:place], f"*{word}*{mark}", *words[place + 1 :]])


# Two texts of SuperGLUE whose pronoun is not the word that the row points to,
# with X where it is.
_BLANKED = (
  (
    "The boy continued to whip the pony , and eventually the pony threw him "
    'over. John laughed out quite loud. "Good for him," he said. ',
    "The boy continued to whip the pony , and eventually the pony threw him "
    'over. John laughed out quite loud. "Good for X ," he said.',
  ),
  (
    "When they had eventually calmed down a bit , and had gotten home, Mr. "
    "Farley put the magic pebble in an iron safe . Some day they might want to "
    "use it , but really for now, what more could they wish for?",
    "When they had eventually calmed down a bit , and had gotten home, Mr. "
    "Farley put the magic pebble in an iron safe . Some day they might want to "
    "use X , but really for now, what more could they wish for?",
  ),
)


@seqio.map_over_dataset
def judged(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Marks a noun and a pronoun; does the pronoun refer to the noun?

      {'text': 'The fish ate the worm . It was hungry.', 'label': 0,
       'span1_text': 'the worm', 'span1_index': 3,
       'span2_text': 'It', 'span2_index': 6, 'idx': 497}
      -> 'wsc text: The fish ate * the worm * . # It # was hungry.', 'False'

  A span that does not stand where its index says stays unmarked. From t5
  `preprocessors.wsc`, which the published mixtures do not use.

  Args:
    example: a row of SuperGLUE's WSC; the indices count words.

  Returns:
    `inputs`, `targets` (`<unk>` where the label is hidden) and `idx`.
  """
  noun, pronoun = example["span1_index"], example["span2_index"]
  # The asterisks around the noun are words as well.
  pronoun += 2 * tf.cast(noun < pronoun, tf.int32)
  text = _mark(example["text"], noun, example["span1_text"], "*")
  text = _mark(text, pronoun, example["span2_text"], "#")
  return {
    "inputs": tf.strings.join(["wsc text:", text], separator=" "),
    "targets": labelled_text.label_word(example["label"], ("False", "True")),
    "idx": example["idx"],
  }


def marked(example: dict[str, tf.Tensor]) -> tf.Tensor:
  """Returns the text of a row of WSC with its noun and its pronoun marked.

      'The fish ate * the worm * . # It # was hungry.'

  A span that does not stand where its index says is marked where it stands
  nearest. Of one that stands nowhere as a whole ("Kamenev and Zinoviev" of
  "Lev Kamenev, Stalin's old co-editor, and Grigory Zinoviev"), each word is.

  Args:
    example: A row of SuperGLUE's WSC; the indices count words.
  """
  text = tf.numpy_function(
    _with_marks,
    [
      example["text"],
      *(example[f"span{i}_{part}"] for i in "12" for part in ("text", "index")),
    ],
    tf.string,
  )
  return tf.ensure_shape(text, [])


def _with_marks(text, noun, noun_index, pronoun, pronoun_index) -> bytes:
  """Puts `*` around the noun of a text and `#` around its pronoun."""
  text, noun, pronoun = (
    np.asarray(one).item().decode() for one in (text, noun, pronoun)
  )
  marks = []
  for span, index, mark in (
    (noun, noun_index, "*"),
    (pronoun, pronoun_index, "#"),
  ):
    for start, end in _places(text, span, index):
      # Of two spans of which one begins or ends the other, this is the outer.
      marks += [(start, 1, -end, f"{mark} "), (end, 0, -start, f" {mark}")]
  for place, _, _, mark in sorted(marks, reverse=True):
    text = text[:place] + mark + text[place:]
  return text.encode()


def _places(text: str, span: str, index: int) -> list[tuple[int, int]]:
  """Finds a span of words: the places of its characters, begin and end."""
  before = re.match(rf"(?:\S+\s){{{index}}}", text)
  if before and text.startswith(span, before.end()):
    return [(before.end(), before.end() + len(span))]
  found = [
    match.span()
    for match in re.finditer(rf"(?<!\w){re.escape(span)}(?!\w)", text)
  ]
  if found:
    return [min(found, key=lambda at: abs(text.count(" ", 0, at[0]) - index))]
  words = [word.strip(",.") for word in span.split()]
  if len(words) < 2:
    return []
  return [
    place
    for word in words
    if word not in ("and", "or")
    for place in _places(text, word, index)
  ]


def schema(
  dataset: tf.data.Dataset, correct_only: bool = False
) -> tf.data.Dataset:
  """Marks a pronoun; the target is the noun that the row proposes.

      {'text': 'The fish ate the worm . It was hungry.', 'label': 0,
       'span1_text': 'the worm', 'span2_text': 'It', 'span2_index': 6,
       'idx': 497}
      -> 'wsc: The fish ate the worm . *It* was hungry.', 'the worm'

  From t5 `preprocessors.wsc_simple`.

  Args:
    dataset: rows of SuperGLUE's WSC.
    correct_only: keep the rows whose noun is the referent, which are those to
      train on.

  Returns:
    `inputs`, `targets`, `label` and `idx` of each row.

  Raises:
    tf.errors.InvalidArgumentError: when read, a row whose word at
      `span2_index` is not its pronoun, or is the first word.
  """
  if correct_only:
    dataset = dataset.filter(
      lambda example: tf.cast(example.get("label", False), tf.bool)
    )
  return dataset.map(_schema, num_parallel_calls=tf.data.AUTOTUNE)


@seqio.map_over_dataset
def definite_pronoun(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Marks the first pronoun of its kind; the target is what it refers to.

      {'sentence': 'Bob asked Tom if he can lend some money.',
       'pronoun': 'he', 'candidates': ['Bob', 'Tom'], 'label': 1}
      -> 'wsc: Bob asked Tom if *he* can lend some money.', 'Tom'

  A pronoun without a space before it, or without a space, a full stop or a
  comma behind it, stays unmarked. From t5
  `preprocessors.definite_pronoun_resolution_simple`.

  Args:
    example: a row of the Definite Pronoun Resolution data.

  Returns:
    `inputs` and `targets`.
  """
  pattern = tf.strings.join([" (", example["pronoun"], ")([ .,])"])
  text = tf.strings.regex_replace(
    example["sentence"], pattern, r" *\1*\2", replace_global=False
  )
  return {
    "inputs": tf.strings.join(["wsc:", text], separator=" "),
    "targets": example["candidates"][example["label"]],
  }


@seqio.map_over_dataset
def entailment_pair(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Recasts a pair of WNLI: what does the hypothesis put for the pronoun?

      {'sentence1': 'The drain is clogged with hair. It has to be cleaned.',
       'sentence2': 'The drain has to be cleaned.', 'label': 1, 'idx': 39}
      -> 'wsc: The drain is clogged with hair. *It* has to be cleaned.',
         'The drain'

  For evaluation: the rules of `recast` were checked by t5's authors on
  validation and test alone. From t5 `preprocessors.wnli_simple`.

  Args:
    example: a row of GLUE's WNLI.

  Returns:
    `inputs`, `targets`, `premise`, `hypothesis`, `label` and `idx`.
  """
  premise, hypothesis = example["sentence1"], example["sentence2"]
  marked, referent = tf.numpy_function(
    recast, [premise, hypothesis], [tf.string, tf.string]
  )
  return {
    "inputs": tf.strings.join(
      ["wsc:", tf.ensure_shape(marked, [])], separator=" "
    ),
    "targets": tf.ensure_shape(referent, []),
    "premise": premise,
    "hypothesis": hypothesis,
    "label": example.get("label", 0),
    "idx": example["idx"],
  }


def _mark(
  text: tf.Tensor, index: tf.Tensor, span: tf.Tensor, mark: str
) -> tf.Tensor:
  """Puts `mark` before and behind the span that starts at word `index`."""
  # A span is put into the pattern as a replacement, as in t5: a backslash in it
  # is an escape.
  span = tf.strings.regex_replace("W", "W", span)
  pattern = tf.strings.join(
    [r"^((?:\S+\s){", tf.strings.as_string(index), "})(", span, ")"]
  )
  return tf.strings.regex_replace(text, pattern, rf"\1{mark} \2 {mark}")


def _schema(example: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Formats one row for `schema`."""
  text, index = example["text"], example["span2_index"]
  pronoun = example["span2_text"]
  words = tf.strings.split(text, sep=" ")
  in_text = [
    tf.debugging.assert_positive(
      index, "span2_index is the first word of the text, or none"
    ),
    tf.debugging.assert_less(
      index, tf.size(words), "span2_index is behind the last word of the text"
    ),
  ]
  with tf.control_dependencies(in_text):
    before, word, after = words[:index], words[index], words[index + 1 :]
  is_known = tf.reduce_any([tf.equal(text, found) for found, _ in _BLANKED])
  is_pronoun = tf.debugging.Assert(
    tf.equal(word, pronoun) | is_known,
    ["span2_text is not the word at span2_index:", pronoun, word],
  )
  with tf.control_dependencies([is_pronoun]):
    blanked = tf.strings.join(
      [
        tf.strings.reduce_join(before, separator=" "),
        "X",
        tf.strings.reduce_join(after, separator=" "),
      ],
      separator=" ",
    )
  for found, written in _BLANKED:
    blanked = tf.where(tf.equal(text, found), written, blanked)
  # Every X that is a word, as in t5.
  marked = tf.strings.regex_replace(blanked, " X ", " *" + pronoun + "* ")
  return {
    "inputs": tf.strings.join(["wsc:", marked], separator=" "),
    "targets": example["span1_text"],
    "label": example.get("label", 0),
    "idx": example["idx"],
  }
