"""Natural Questions without passages, with all answers of a question.

Names, formats and splits of t5_closed_book_qa (Roberts et al. 2020); its other
tasks are in `closed_book`.

    {'question': {'text': 'what are the names of the olsen twins', ...},
     'annotations': {'short_answers': {'text': [['Mary-Kate', 'Ashley']], ...},
                     'yes_no_answer': [-1], ...}, ...}
    -> 'nq question: what are the names of the olsen twins',
       'answer: Mary-Kate answer: Ashley'

Questions without a short answer, yes or no are left out.
"""

import functools

import seqio
import tensorflow as tf

from tasks.formats.steps import TOKENIZED
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import t5_features
from transformer_zoo.evaluation.answers import post_processors
from transformer_zoo.evaluation.metrics import question_answering


def all_answers(dataset: tf.data.Dataset) -> tf.data.Dataset:
  """Writes questions with the answers of all annotators as targets.

  From `natural_questions_nocontext` of t5_closed_book_qa: first what was
  answered by yes and no, then the passages' words. Training questions have one
  annotator each; the targets of others are none that a model should give.

  Args:
    dataset: rows of Natural Questions.

  Returns:
    `inputs`, `targets` and `annotations`, the answers of each annotator.
  """

  def write(example):
    annotations = example["annotations"]
    words = annotations["short_answers"]["text"]
    label = annotations["yes_no_answer"]
    given = label > -1
    decisions = tf.where(tf.boolean_mask(label, given) == 1, "yes", "no")
    answers = tf.concat([decisions, words.flat_values], 0)
    by_annotator = tf.RaggedTensor.from_row_lengths(
      decisions, tf.cast(given, tf.int64)
    )
    return {
      "inputs": tf.strings.join(["nq question: ", example["question"]["text"]]),
      "targets": tf.strings.reduce_join(
        tf.strings.join([post_processors.ANSWER_PREFIX, " ", answers]),
        separator=" ",
      ),
      "annotations": tf.concat([by_annotator, words], axis=1),
    }

  dataset = dataset.map(write, num_parallel_calls=tf.data.AUTOTUNE)
  return dataset.filter(lambda x: tf.strings.length(x["targets"]) > 0)


# A part of the training questions is for validation; they have one annotator.
seqio.TaskRegistry.add(
  "natural_questions_nocontext",
  source=PreparedTfdsDataSource(
    "natural_questions/default:0.1.0",
    splits={
      "train": "train[7830:79168]",
      "validation": "train[:7830]",
      "test": "validation",
    },
  ),
  preprocessors=[all_answers, *TOKENIZED],
  postprocess_fn=post_processors.all_answers,
  metric_fns=[
    functools.partial(
      question_answering.natural_questions_recall, min_annotators=1
    )
  ],
  output_features=t5_features(),
)

# All training questions; the validation split has five annotators.
seqio.TaskRegistry.add(
  "natural_questions_nocontext_test",
  source=PreparedTfdsDataSource(
    "natural_questions/default:0.1.0", splits=("train", "validation")
  ),
  preprocessors=[all_answers, *TOKENIZED],
  postprocess_fn=post_processors.all_answers,
  metric_fns=[question_answering.natural_questions_recall],
  output_features=t5_features(),
)
