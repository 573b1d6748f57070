"""Questions, answers and passages into T5's text-to-text form.

SeqIO preprocessors over raw examples; the strings equal
`t5/data/preprocessors.py`, character by character: ASCII punctuation stands
apart and white space is one space.
"""

import seqio
import tensorflow as tf

from transformer_zoo.data.trimming import WindowWithTargets

UNANSWERABLE = "unanswerable"


def pad_punctuation(text: tf.Tensor) -> tf.Tensor:
  """Returns strings with spaces around ASCII punctuation.

      'Introducción (la vídeo).' -> 'Introducción ( la vídeo ) . '

  Args:
    text: strings of any shape.
  """
  text = tf.strings.regex_replace(text, r"([[:punct:]])", r" \1 ")
  return _collapse_spaces(text)


@seqio.map_over_dataset
def squad(
  example: dict[str, tf.Tensor],
  include_context: bool = True,
  no_answer: str = "<unk>",
) -> dict[str, tf.Tensor]:
  """Writes a question about a passage, with its first answer as target.

      {'question': 'A question?', 'context': 'Some context.',
       'answers': {'text': ['The answer.', 'Another answer.'], ...}, 'id': '7'}
      -> 'question: A question ? context: Some context . ', 'The answer . '

  From t5 `preprocessors.squad`, which cannot read a question without answers.

  Args:
    example: a row of SQuAD 1.1 or 2.0.
    include_context: else the inputs are `squad trivia question: A question ? `.
    no_answer: the target where `answers` is empty: `<unk>` for hidden answers,
      as in GLUE.

  Returns:
    `inputs`, `targets`, `id`, and with the same spaces `context`, `question`
    and all `answers`.
  """
  answers = pad_punctuation(example["answers"]["text"])
  question = pad_punctuation(example["question"])
  context = pad_punctuation(example["context"])
  if include_context:
    parts = ["question:", question, "context:", context]
  else:
    parts = ["squad trivia question:", question]
  return {
    "inputs": _collapse_spaces(tf.strings.join(parts, separator=" ")),
    "targets": first_answer(answers, no_answer),
    "id": example["id"],
    "context": context,
    "question": question,
    "answers": answers,
  }


def answer_texts(example: dict[str, tf.Tensor]) -> tf.Tensor:
  """Returns the answers of a row of SQuAD as the rows write them."""
  return example["answers"]["text"]


def answer_starts(example: dict[str, tf.Tensor]) -> tf.Tensor:
  """Returns the character of the context that each answer begins with."""
  return example["answers"]["answer_start"]


def squad_span(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Writes a question about a passage, with the place of its answer as target.

      'context with the answer.', 'the answer' -> 'start: 2 end: 3'

  The places count the pieces between single spaces, after everything but ASCII
  letters, digits and underscores has become a space; the first match counts. A
  question whose first answer is not found is dropped, and so is one whose
  answer is at the very end of the passage: t5
  `preprocessors.squad_span_space_tokenized` does not look there.

  Args:
    dataset: rows of SQuAD.

  Returns:
    what `squad` gives, with other targets.
  """

  def with_place(example):
    place = _place_of(example["targets"], example["context"])
    return example | {"targets": place}

  dataset = squad(dataset).map(
    with_place, num_parallel_calls=tf.data.experimental.AUTOTUNE
  )
  return dataset.filter(lambda x: tf.strings.length(x["targets"]) > 0)


def trivia_qa(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Writes each answer that a passage has as an example of that passage.

      {'question': 'What is the answer?',
       'entity_pages': {'wiki_context': ['The answer is the key.'], ...},
       'answer': {'normalized_aliases': ['key', 'lock'], ...}, ...}
      -> 'question: What is the answer ? context: The answer is the key . ',
         'key'

  Answers are sought regardless of the case of ASCII letters. From t5
  `preprocessors.trivia_qa`, which takes the punctuation of an answer for a
  regular expression; normalised aliases have none.

  Args:
    dataset: rows of TriviaQA with `entity_pages`, `search_results` or both.

  Returns:
    `inputs` and `targets`, passage by passage.
  """

  def pairs(example):
    passages = []
    if "entity_pages" in example:
      passages.append(example["entity_pages"]["wiki_context"])
    if "search_results" in example:
      passages.append(example["search_results"]["search_context"])
    passages = pad_punctuation(tf.concat(passages, 0))
    answers = pad_punctuation(example["answer"]["normalized_aliases"])
    question = pad_punctuation(example["question"])
    inputs = tf.strings.join(
      ["question:", question, "context:", passages], separator=" "
    )
    found = _find_each(answers, passages)
    shape = tf.shape(found)
    inputs = tf.broadcast_to(_collapse_spaces(inputs)[:, tf.newaxis], shape)
    return {
      "inputs": tf.boolean_mask(inputs, found),
      "targets": tf.boolean_mask(tf.broadcast_to(answers, shape), found),
    }

  dataset = dataset.map(pairs, num_parallel_calls=tf.data.experimental.AUTOTUNE)
  return dataset.unbatch()


def keep_answer_in_window(
  dataset: tf.data.Dataset,
  sequence_length: dict[str, int] | None = None,
  default_length: int = 512,
) -> tf.data.Dataset:
  """Cuts long token sequences to a random window that has the answer in it.

  An example whose inputs are too long and do not have its targets as a run of
  tokens is dropped; of several runs the first is kept. From t5
  `preprocessors.trivia_qa_truncate_inputs`.

  Prepared before the lengths are known, inputs stay whole, and the window is
  drawn anew each time that the loader reads the example. What is dropped then
  is what t5 drops at its 512 tokens.

  Args:
    dataset: `inputs` and `targets` as token ids.
    sequence_length: the most tokens of `inputs`.
    default_length: The length above which an example is too long, if the run
      gives none.

  Returns:
    `inputs` and `targets` alone.
  """
  given = (sequence_length or {}).get("inputs")
  length = default_length if given is None else given

  @seqio.map_over_dataset(num_seeds=1)
  def cut(example, seed):
    inputs, targets = example["inputs"], example["targets"]
    if tf.size(inputs) > length:
      window = _window(inputs, targets, length, seed)
      inputs = window if given is not None or tf.size(window) == 0 else inputs
    return {"inputs": inputs, "targets": targets}

  return cut(dataset).filter(lambda example: tf.size(example["inputs"]) > 0)


keep_answer_in_window.trimming = WindowWithTargets()


@seqio.map_over_dataset
def closed_book(
  example: dict[str, tf.Tensor], prefix: str, answers_key: str
) -> dict[str, tf.Tensor]:
  """Writes a question without a passage, with its first answer as target.

      {'question': 'who wrote it', 'answer': ['Ann Lee', 'A. Lee']}
      -> 'nq question: who wrote it', 'Ann Lee'

  Args:
    example: `question` and the accepted answers.
    prefix: The text that the inputs begin with, such as `nq question: `.
    answers_key: the field with the answers.

  Returns:
    `inputs`, `targets` and all `answers`.
  """
  answers = example[answers_key]
  return {
    "inputs": tf.strings.join([prefix, example["question"]]),
    "targets": first_answer(answers, "<unk>"),
    "answers": answers,
  }


@seqio.map_over_dataset
def trivia_qa_closed_book(
  example: dict[str, tf.Tensor],
) -> dict[str, tf.Tensor]:
  """Writes a TriviaQA question without a passage, its main answer as target.

      {'question': 'Which colour is it?',
       'answer': {'value': 'Red', 'aliases': ['Red', 'Scarlet'], ...}, ...}
      -> 'trivia_qa question: Which colour is it?', 'Red'

  Args:
    example: a row of TriviaQA.

  Returns:
    `inputs`, `targets` and all `answers`.
  """
  return {
    "inputs": tf.strings.join(["trivia_qa question: ", example["question"]]),
    "targets": example["answer"]["value"],
    "answers": example["answer"]["aliases"],
  }


def first_answer(answers: tf.Tensor, no_answer: str) -> tf.Tensor:
  """Returns the first of a vector of strings, `no_answer` if it has none."""
  return tf.concat([answers, [no_answer]], 0)[0]


def _collapse_spaces(text: tf.Tensor) -> tf.Tensor:
  return tf.strings.regex_replace(text, r"\s+", " ")


def _place_of(answer: tf.Tensor, context: tf.Tensor) -> tf.Tensor:
  """Returns `start: 2 end: 3`, or '' where the answer is not found."""
  answer_pieces, context_pieces = (
    tf.strings.split(tf.strings.regex_replace(text, r"\W", " "), sep=" ")
    for text in (answer, context)
  )
  length = tf.size(answer_pieces)
  # t5 leaves out the last place that the answer could have.
  places = tf.maximum(tf.size(context_pieces) - length, 0)
  found = _starts_of(answer_pieces, context_pieces)[:places]
  found = tf.concat([found, [False]], 0)  # no reduction of nothing
  start = tf.argmax(tf.cast(found, tf.int32), output_type=tf.int32)
  text = tf.strings.join(
    [
      "start: ",
      tf.strings.as_string(start),
      " end: ",
      tf.strings.as_string(start + length - 1),
    ]
  )
  return tf.where(tf.reduce_any(found), text, "")


def _starts_of(part: tf.Tensor, whole: tf.Tensor) -> tf.Tensor:
  """Returns whether the vector `part` is in `whole` at each possible start."""
  num_starts = tf.maximum(tf.size(whole) - tf.size(part) + 1, 0)
  places = tf.range(num_starts)[:, tf.newaxis] + tf.range(tf.size(part))
  return tf.reduce_all(tf.gather(whole, places) == part, axis=1)


def _find_each(answers: tf.Tensor, passages: tf.Tensor) -> tf.Tensor:
  """Returns [passages, answers] booleans: which passage has which answer."""
  passages = tf.strings.lower(passages)
  patterns = tf.strings.regex_replace(
    tf.strings.lower(answers), r"([[:punct:]])", r"\\\1"
  )
  found = tf.map_fn(
    lambda pattern: tf.strings.regex_full_match(
      passages, tf.strings.join([".*", pattern, ".*"])
    ),
    tf.concat([patterns, [""]], 0),  # a question may have no answer
    fn_output_signature=tf.TensorSpec([None], tf.bool),
  )
  return tf.transpose(found[:-1])


def _window(
  inputs: tf.Tensor, targets: tf.Tensor, length: int, seed: tf.Tensor
) -> tf.Tensor:
  """Returns `length` of `inputs` around `targets`; nothing if not there."""
  found = _starts_of(targets, inputs)
  if not tf.reduce_any(found):
    return tf.zeros([0], inputs.dtype)
  answer = tf.argmax(tf.cast(found, tf.int32), output_type=tf.int32)
  start = tf.random.stateless_uniform(
    [],
    seed=seed,
    minval=tf.maximum(answer - (length - tf.size(targets)), 0),
    maxval=tf.minimum(answer, tf.size(inputs) - length) + 1,
    dtype=tf.int32,
  )
  return inputs[start : start + length]
