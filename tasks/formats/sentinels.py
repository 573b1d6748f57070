"""Tasks in the form of span corruption: a sentinel asks for the answer.

    'copa choice1: A. choice2: B. premise: C. question: cause', 'choice1'
    -> 'copa choice1: A. choice2: B. premise: C. question: cause <extra_id_0>',
       '<extra_id_0> choice1'

From SeqIO's `experimental.add_task_with_sentinels`, which t5 applies to
SuperGLUE; here a name is written where the task is registered, and answers can
be imported, so that prepared data is scored without SeqIO.
"""

from collections.abc import Mapping
import functools
from typing import Any

import seqio
import tensorflow as tf

from transformer_zoo.data import vocabularies
from transformer_zoo.data.storage import function_references
from transformer_zoo.data.trimming import KeepLast
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.answers.post_processors import without_sentinels


def with_sentinels(task_name: str, number: int = 1) -> dict[str, Any]:
  """Returns the arguments that register the form of a task with sentinels.

      seqio.TaskRegistry.add(
        "super_glue_cb_v102_1_sentinel", **with_sentinels("super_glue_cb_v102")
      )

  Args:
    task_name: a registered task that ends in `append_eos_after_trim`.
    number: The number of sentinels.

  Raises:
    UserError: the task ends otherwise, the number is not positive, or its
      post-processing cannot be imported.
  """
  task = seqio.TaskRegistry.get(task_name)
  *steps, last = task.preprocessors
  if last is not seqio.preprocessors.append_eos_after_trim:
    raise UserError(
      f"Task {task_name!r} has no form with sentinels: its last step is not "
      "seqio.preprocessors.append_eos_after_trim."
    )
  if number < 1:
    raise UserError(
      f"Task {task_name!r} cannot have {number} sentinels; give a number from "
      "1 on."
    )
  post = task.postprocessor
  return {
    "source": task.source,
    "preprocessors": [*steps, SentinelStep(number), last],
    "postprocess_fn": functools.partial(
      without_sentinels,
      sentinels=" ".join(f"<extra_id_{i}>" for i in range(number)),
      postprocess=post and function_references.refer_to(post, task_name),
    ),
    "metric_fns": task.metric_fns,
    "output_features": task.output_features,
  }


class SentinelStep:
  """A SeqIO preprocessor over token ids, before `append_eos_after_trim`.

  Inputs that are too long lose what is before their sentinels; so do targets,
  which lose what is before as many last tokens.

  Attributes:
    number: The number of sentinels.
    trimming: The rule that shortens prepared examples the same way.
  """

  def __init__(self, number: int):
    self.number = number
    self.trimming = KeepLast(number)

  def __call__(
    self,
    dataset: tf.data.Dataset,
    output_features: Mapping[str, seqio.Feature],
    sequence_length: Mapping[str, int] | None = None,
  ) -> tf.data.Dataset:
    """Returns the examples with sentinels, cut so that EOS still fits.

    Raises:
      UserError: a vocabulary has fewer sentinels, or is missing.
    """
    sentinels = {
      name: self._find(feature.vocabulary)
      for name, feature in output_features.items()
    }

    @seqio.map_over_dataset
    def add(example):
      found = {}
      for name, feature in output_features.items():
        ids = tf.constant(sentinels[name], example[name].dtype)
        both = (
          [example[name], ids] if name == "inputs" else [ids, example[name]]
        )
        found[name] = tf.concat(both, 0)
        length = (sequence_length or {}).get(name)
        if length is not None:
          found[name] = self._cut(found[name], length - int(feature.add_eos))
      return example | found

    return add(dataset)

  def _find(self, vocabulary: seqio.Vocabulary) -> list[int]:
    """Returns the ids of the first sentinels, added or of the file itself."""
    found = vocabularies.from_seqio(vocabulary).sentinel_ids.tolist()
    if len(found) < self.number:
      raise UserError(
        f"There cannot be {self.number} sentinels: the vocabulary {vocabulary} "
        f"has {len(found)}; give a smaller number, or a vocabulary with "
        "extra_ids."
      )
    return found[: self.number]

  def _cut(self, ids: tf.Tensor, length: int) -> tf.Tensor:
    """Returns at most `length` ids, the last ones among them."""
    last = min(self.number, length)
    if tf.size(ids) > length:
      ids = tf.concat([ids[: length - last], ids[tf.size(ids) - last :]], 0)
    return ids
