r"""Zero- and few-shot forms of any task, for language models (GPT-3, T0).

The inputs become k solved examples of `train` and then the example's own:

    register_few_shot("rte_2_shot", "super_glue_rte_v102", num_shots=2)

    'rte hypothesis: A. premise: B.\nanswer: entailment\n\n
     rte hypothesis: C. premise: D.\nanswer: not_entailment\n\n
     rte hypothesis: E. premise: F.\nanswer: '

Targets, answers and metrics are the task's own, rank classification among them:
the choices of one row come after the same demonstrations. T5's vocabulary reads
a line break as a space. Inputs that are too long lose demonstrations, the first
ones first, until they fit; inputs that do not fit without any lose their
beginning: the question, which is at the end, stays. `zoo inspect task NAME
--length inputs=...` tells how many are too long.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from tasks.your_data.registration import checks_arguments
from transformer_zoo.data import vocabularies
from transformer_zoo.data.trimming import FewerDemonstrations
from transformer_zoo.errors import nearest
from transformer_zoo.errors import UserError

_TRAINING = "train"
# Draws from the stream of the pool must differ from an example's.
_POOL_STREAM = 2**32


@checks_arguments
def register_few_shot(
  name: str,
  task_name: str,
  *,
  num_shots: int,
  seed: int = 0,
  fixed: bool = False,
  pool_size: int = 1000,
  prompt: str = "",
  inputs_prefix: str = "",
  targets_prefix: str = "\nanswer: ",
  example_separator: str = "\n\n",
  inputs_end: bool = True,
) -> seqio.Task:
  """Registers the few-shot form of a task.

  Args:
    name: The name of the new task.
    task_name: a registered task whose examples are text before they are
      tokenised; with `train` unless `num_shots` is 0.
    num_shots: demonstrations of each example.
    seed: The seed of the pool and of the draws from it, which are the same for
      example i of a split on every machine.
    fixed: the same demonstrations for all examples.
    pool_size: the most training examples that are kept to draw from, sampled
      uniformly in one pass.
    prompt: comes first.
    inputs_prefix: The text before every inputs.
    targets_prefix: The text between inputs and targets, and at the end.
    example_separator: The text after the prompt and after every demonstration.
    inputs_end: False where a language model continues the inputs, which then do
      not end in EOS.

  Raises:
    UserError: there is no such task, or it has no text or no `train`; the name
      is taken; the numbers are none that can be drawn.
  """
  names = seqio.TaskRegistry.names()
  if task_name not in names:
    raise UserError(
      f"No task is named {task_name!r}{nearest(task_name, names)}"
    )
  if name in names:
    raise UserError(f"A task {name!r} exists already; give another name.")
  if not 0 <= num_shots <= pool_size:
    raise UserError(
      f"num_shots={num_shots} is not from 0 to pool_size={pool_size}, the "
      "examples there are to draw from."
    )
  if seed < 0:
    raise UserError(f"seed={seed} is negative.")
  task = seqio.TaskRegistry.get(task_name)
  before, tokenized, after = _divide_at_tokenization(task)
  features = dict(task.output_features)
  if not inputs_end:
    features["inputs"] = dataclasses.replace(features["inputs"], add_eos=False)
  step = FewShotStep(
    task,
    before,
    num_shots=num_shots,
    seed=seed,
    fixed=fixed,
    pool_size=pool_size,
    texts=(prompt, inputs_prefix, targets_prefix, example_separator),
  )
  return seqio.TaskRegistry.add(
    name,
    source=task.source,
    preprocessors=[*before, step, *tokenized, FittingStep(), *after],
    output_features=features,
    postprocess_fn=task.postprocessor,
    metric_fns=task.metric_fns,
  )


class FewShotStep:
  """A SeqIO preprocessor that puts demonstrations before the inputs.

  An example never is among its own demonstrations: none has the same inputs.
  Choices that come without their question (`unconditional=` of
  `register_prompts`) stay without demonstrations too.
  """

  def __init__(
    self,
    task: seqio.Task,
    steps: Sequence[Callable[..., tf.data.Dataset]],
    *,
    num_shots: int,
    seed: int,
    fixed: bool,
    pool_size: int,
    texts: tuple[str, str, str, str],
  ):
    """See `register_few_shot`; `steps` make the text of the task's examples."""
    self.task_name = task.name
    self.num_shots = num_shots
    self.seed = seed
    self.fixed = fixed
    self.pool_size = pool_size
    self.texts = texts
    self._task = task
    self._steps = steps
    self._unconditional = getattr(task.source, "unconditional", "").encode()

  def __call__(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the examples with longer `inputs`.

    Raises:
      UserError: `train` is missing or too small.
    """
    if self.num_shots:
      self._pool  # noqa: B018 (an error within TensorFlow would be lost)

    def with_demonstrations(number, example):
      # The choices of a row have the row in their `idx`.
      row = example["idx"][0] if "is_correct" in example else number
      inputs, starts = tf.numpy_function(
        self._write,
        [row, example["inputs"]],
        (tf.string, tf.int64),
        stateful=False,
      )
      return {
        **example,
        "inputs": tf.ensure_shape(inputs, ()),
        "demonstration_starts": tf.ensure_shape(starts, (self.num_shots + 1,)),
      }

    return dataset.enumerate().map(with_demonstrations)

  def _write(self, row: np.ndarray, inputs: bytes) -> tuple[bytes, np.ndarray]:
    """Returns the inputs after their demonstrations, and where these begin."""
    if self._unconditional and inputs == self._unconditional:
      return inputs, np.zeros(self.num_shots + 1, np.int64)
    prompt, inputs_prefix, targets_prefix, separator = (
      text.encode("utf-8") for text in self.texts
    )
    text, starts = prompt + separator if prompt else b"", []
    for shown, targets in self._demonstrations(int(row), inputs):
      starts.append(len(text))
      text += inputs_prefix + shown + targets_prefix + targets + separator
    starts.append(len(text))
    text += inputs_prefix + inputs + targets_prefix
    return text, np.array(starts, np.int64)

  def _demonstrations(
    self, row: int, inputs: bytes
  ) -> list[tuple[bytes, bytes]]:
    if not self.num_shots:
      return []
    order = _generator(self.seed, 0 if self.fixed else row)
    chosen = []
    for place in order.permutation(len(self._pool)):
      if self._pool[place][0] != inputs:
        chosen.append(self._pool[place])
        if len(chosen) == self.num_shots:
          return chosen
    raise self._too_few(len(chosen))

  def _too_few(self, number: int) -> UserError:
    return UserError(
      f"Task {self.task_name!r} has {number} training examples that can be "
      f"shown before another one, too few for num_shots={self.num_shots}."
    )

  @functools.cached_property
  def _pool(self) -> list[tuple[bytes, bytes]]:
    """The inputs and targets that are drawn from, a sample of `train`.

    Reservoir sampling: one pass, with `pool_size` examples in memory.
    """
    if _TRAINING not in self._task.splits:
      raise UserError(
        f"Task {self.task_name!r} has no split {_TRAINING!r}, out of which its "
        "demonstrations are drawn; num_shots=0 needs none."
      )
    rng = _generator(self.seed, _POOL_STREAM)
    pool, count = [], 0
    for example in self._training_examples().as_numpy_iterator():
      if not example.get("is_correct", True):
        continue
      shown = example["inputs"], example["targets"]
      if count < self.pool_size:
        pool.append(shown)
      elif (place := int(rng.integers(count + 1))) < self.pool_size:
        pool[place] = shown
      count += 1
    if len(pool) < self.num_shots:
      raise self._too_few(len(pool))
    return pool

  def _training_examples(self) -> tf.data.Dataset:
    dataset = self._task.source.get_dataset(split=_TRAINING, shuffle=False)
    for step in self._steps:
      dataset = seqio.utils.add_kwargs_to_transform(
        step,
        sequence_length=None,
        output_features=self._task.output_features,
      )(dataset)
    return dataset


class FittingStep:
  """A SeqIO preprocessor after tokenisation: demonstrations fit or go.

  Attributes:
    trimming: The rule that shortens prepared examples when they are read.
  """

  trimming = FewerDemonstrations()

  def __call__(
    self,
    dataset: tf.data.Dataset,
    output_features: Mapping[str, seqio.Feature],
    sequence_length: Mapping[str, int] | None = None,
  ) -> tf.data.Dataset:
    """Returns the examples with `inputs` that fit, with room for EOS."""
    length = (sequence_length or {}).get("inputs")
    if length is None:
      return dataset
    feature = output_features["inputs"]
    vocabulary = vocabularies.from_seqio(feature.vocabulary)

    def cut(ids, text, starts):
      room = length - int(feature.add_eos)
      return self.trimming.cut(ids, text, starts, room, vocabulary)

    def fit(example):
      ids = tf.numpy_function(
        cut,
        [
          example[name]
          for name in ("inputs", "inputs_pretokenized", "demonstration_starts")
        ],
        tf.int32,
        stateful=False,
      )
      return {**example, "inputs": tf.ensure_shape(ids, (None,))}

    return dataset.map(fit)


def _generator(seed: int, index: int) -> np.random.Generator:
  """Returns the random numbers of one example."""
  return np.random.Generator(np.random.Philox(key=(seed, index)))


def _divide_at_tokenization(
  task: seqio.Task,
) -> tuple[list[Callable[..., Any]], ...]:
  """Returns the steps before the tokenisation, it and its cache, the others.

  Raises:
    UserError: there is no text before the tokenisation, or nothing to score, or
      the task cuts its examples in a way of its own.
  """
  steps = list(task.preprocessors)
  functions = [
    step.func if isinstance(step, functools.partial) else step for step in steps
  ]
  place = None
  if seqio.preprocessors.tokenize in functions:
    place = functions.index(seqio.preprocessors.tokenize)
  if (
    place is None or "inputs" not in task.output_features or not task.metric_fns
  ):
    raise UserError(
      f"Task {task.name!r} has no few-shot form: it needs inputs as text, "
      "seqio.preprocessors.tokenize among its steps, and a metric."
    )
  if any(hasattr(step, "trimming") for step in steps):
    raise UserError(
      f"Task {task.name!r} has no few-shot form: a step of its own cuts long "
      "examples, and demonstrations have to be cut otherwise."
    )
  end = place + 1
  # What depends on lengths cannot be cached.
  if isinstance((steps[end:] or [None])[0], seqio.CacheDatasetPlaceholder):
    end += 1
  return steps[:place], steps[place:end], steps[end:]
