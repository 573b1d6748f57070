"""The tasks that encoders are studied on, and their forms.

Each has 4,000 training examples, 600 of validation and 200 of test, half of
these over words that training lacks, as in `tasks/miniature/supervised.py`.
"""

from collections.abc import Callable, Mapping
import functools

import seqio
import tensorflow as tf

from tasks.corpora import unlabelled_text
from tasks.formats import forms
from tasks.formats import tagging
from tasks.miniature import source
from tasks.miniature.examples import splits
from tasks.miniature.for_encoders import examples as written
from transformer_zoo.corruption import NextSentence
from transformer_zoo.data.features.forms import FEATURES
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import classification
from transformer_zoo.evaluation.metrics import question_answering

_STEPS = (
  seqio.preprocessors.tokenize,
  seqio.preprocessors.append_eos_after_trim,
)
_FORM_FEATURES = {
  name: seqio.Feature(source.FEATURES["inputs"].vocabulary, add_eos=False)
  for name in FEATURES
}


def _source(
  write: Callable, stream: int, templates: Mapping[str, str]
) -> source.GeneratedSource:
  """Returns the source of a task.

  Args:
    write: The example writer.
    stream: The number of the task's random choices, one per task.
    templates: The fields that are made of others, by name.

  Returns:
    A source of the fields of the raw examples, of `templates`, and `idx`.
  """

  def read(split, shuffle_files=False, seed=None):
    del shuffle_files, seed  # The examples are in random order already.
    raw = splits.examples(write, stream=stream, split=split)
    columns = {"idx": tf.range(len(raw))}
    for name, value in raw[0].items():
      values = [example[name] for example in raw]
      columns[name] = (
        tf.ragged.constant(values, tf.string)
        if isinstance(value, list)
        else values
      )
    for name, template in templates.items():
      columns[name] = [template.format(**example) for example in raw]
    return tf.data.Dataset.from_tensor_slices(columns)

  return source.GeneratedSource(
    read, repr((write.__name__, stream, dict(templates))), splits.SIZES
  )


# The documents of `mini_corpus`, whose sentences are known.
#   {"text": "an otter is an animal. otters eat melons. the otters growl."}
seqio.TaskRegistry.add(
  "mini_corpus_sentences",
  source=source.corpus_source("chronicle"),
  preprocessors=unlabelled_text.steps(NextSentence(), "en"),
  output_features={
    name: seqio.Feature(feature.vocabulary, add_eos=False)
    for name, feature in source.FEATURES.items()
  },
)

# Named entities. {"tokens": ["emma", "fed", "the", "bat", "."], "tags":
# ["B-person", "O", "O", "B-animal", "O"]}
#   inputs:  mini_ner sentence: emma fed the bat .
#   targets: [ emma | person ] fed the [ bat | animal ] .
seqio.TaskRegistry.add(
  "mini_ner",
  source=_source(written.entities, 11, {}),
  preprocessors=(
    functools.partial(tagging.bracketed, benchmark="mini_ner"),
    *_STEPS,
  ),
  output_features=source.FEATURES,
  postprocess_fn=post_processors.bracketed_entities,
  metric_fns=[classification.entity_f1],
)
forms.register_tags(
  "mini_ner",
  tags=(
    "O",
    *(f"{begins}-{kind}" for kind in written.ENTITIES for begins in "BI"),
  ),
  features=_FORM_FEATURES,
)

# Whether a sentence answers a question. {"question": "which one was ripe?",
# "context": "emma had a tool, a plant ...", "label": "not_entailment"}
#   inputs:  mini_qnli question: which one ... sentence: emma had ...
#   targets: not_entailment
seqio.TaskRegistry.add(
  "mini_qnli",
  source=_source(
    written.answerable,
    12,
    {
      "inputs": "mini_qnli question: {question} sentence: {context}",
      "targets": "{label}",
    },
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=functools.partial(
    post_processors.string_label_to_class_id,
    label_classes=["entailment", "not_entailment"],
  ),
  metric_fns=[classification.accuracy],
)
forms.register_classes(
  "mini_qnli",
  "{question}",
  "{context}",
  classes=("entailment", "not_entailment"),
  features=_FORM_FEATURES,
)

# Questions with and without an answer. The fields are the same as
# `mini_qnli`'s.
#   inputs:  mini_squad2 question: which one ... context: emma had ...
#   targets: none
seqio.TaskRegistry.add(
  "mini_squad2",
  source=_source(
    written.answerable,
    13,
    {
      "inputs": "mini_squad2 question: {question} context: {context}",
      "targets": "{answer}",
    },
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=functools.partial(
    post_processors.squad_v2, no_answer=written.NO_ANSWER
  ),
  metric_fns=[question_answering.squad_v2],
)
forms.register_spans(
  "mini_squad2",
  "{question}",
  "{context}",
  answers=lambda example: example["answers"],
  no_answer=written.NO_ANSWER,
  features=_FORM_FEATURES,
)

# One of four answers. {"article": "emma had a thing. it was furry.",
# "question": "what did emma have?", "choices": ["an animal", "a tool", ...],
# "label": "choice1"}
#   inputs:  mini_race question: what ... choice1: an animal ... article: ...
#   targets: choice1
seqio.TaskRegistry.add(
  "mini_race",
  source=_source(
    written.choice,
    14,
    {
      "inputs": "mini_race question: {question} choice1: {choices[0]} "
      "choice2: {choices[1]} choice3: {choices[2]} choice4: {choices[3]} "
      "article: {article}",
      "targets": "{label}",
    },
  ),
  preprocessors=_STEPS,
  output_features=source.FEATURES,
  postprocess_fn=post_processors.lower_text,
  metric_fns=[classification.accuracy],
)
forms.register_choices(
  "mini_race",
  "{article} {question}",
  lambda example: example["choices"],
  answers=("choice1", "choice2", "choice3", "choice4"),
  features=_FORM_FEATURES,
)
