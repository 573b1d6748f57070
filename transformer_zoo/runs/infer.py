"""Answers of a checkpoint to texts, or log-likelihoods of given targets.

All examples are read and checked before anything is computed, unless they are
answered one by one. With a journal, finished batches are kept on disk under a
fingerprint of what answers depend on (`fingerprint.py`), and a run that was
killed continues after them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import itertools
import pathlib
import sys
from typing import Any

from flax import linen as nn
import gin

from transformer_zoo.data.features import converters
from transformer_zoo.data.features import forms
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.effects import Place
from transformer_zoo.effects import Speed
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.journal import Journal
from transformer_zoo.processes import distributed
from transformer_zoo.runs import fingerprint
from transformer_zoo.runs import inputs
from transformer_zoo.runs.answers import answering
from transformer_zoo.runs.answers import encoder_answers
from transformer_zoo.runs.answers import scoring
from transformer_zoo.runs.answers.readings import Reading
from transformer_zoo.runs.loading import ensembles
from transformer_zoo.runs.loading import restoration
from transformer_zoo.training.sharding.partitioning import batch_shares
from transformer_zoo.training.sharding.partitioning import ONE_COPY_PER_DEVICE
from transformer_zoo.training.sharding.partitioning import Partitioning

Example = Mapping[str, Any]


@gin.register
def infer(
  examples: Iterable[Mapping[str, Any]],
  *,
  model: nn.Module,
  checkpoint_path: str | Sequence[str],
  task_feature_lengths: Mapping[str, int],
  batch_size: int,
  mixture_or_task_name: str | None = None,
  prepared_dir: Place[str] = "runs/prepared",
  vocabulary_path: str | None = None,
  extra_ids: int | None = None,
  partitioning: Speed[Partitioning] = ONE_COPY_PER_DEVICE,
  converter: converters.Converter = converters.ENCODER_DECODER,
  decoding: DecodingOptions = GREEDY,
  scorer: Callable[..., Any] | None = None,
  num_fillings: int = 5,
  reading: Reading | None = None,
  scored: bool = False,
  one_by_one: bool = False,
  journal_path: Place[str | None] = None,
) -> Iterator[dict[str, Any]]:
  """Answers texts, or scores targets that are given.

  Args:
    examples: The examples. Each has `inputs` as the model was trained on, task
      prefix included, and `targets` if they are scored or an optional `prefix`
      that the answer begins with. Other keys are passed on, except for an
      answer or a score from before. A language model that was trained on
      targets alone continues `inputs`; an encoder reads several texts that tabs
      divide. The first of several processes reads
      the examples and shares them.
    model: The architecture.
    checkpoint_path: The path of a run folder or of one of its steps, of a
      Hugging Face directory or of a T5X checkpoint; several paths answer as an
      ensemble.
    task_feature_lengths: The number of tokens of each feature; a note reports
      texts that are longer and cut.
    batch_size: The number of texts of a batch.
    mixture_or_task_name: The name of a prepared mixture, whose vocabulary is
      used; None if `vocabulary_path` is given.
    prepared_dir: The folder of prepared data.
    vocabulary_path: The path of a vocabulary of any kind, used instead of that
      of the mixture.
    extra_ids: The number of sentinels of that vocabulary; None for the usual
      number of its kind.
    partitioning: The mesh of devices and the rules of the layout.
    converter: The layout of a batch (data/features/converters.py).
    decoding: The options of the search for outputs.
    scorer: The class that reads the head of an encoder, as in `evaluate`.
    num_fillings: The number of tokens that an encoder names for each mask.
    reading: What is read off the model instead of its answers (`readings.py`):
      the vector of a text, the weights of attention; None for answers.
    scored: Whether the log-likelihood of the targets is computed and nothing is
      decoded.
    one_by_one: Whether each example is answered before the next one is read.
    journal_path: The path of a file of finished answers, with which a run that
      was killed continues; None for no file.

  Yields:
    Each example with the values that `answering.Answering` adds to it, or
    `encoder_answers.EncoderAnswering`, or the reading.

  Raises:
    UserError: The configuration or an example cannot be used as it is.
  """
  inputs.check_at_least(
    1, BATCH_SIZE=batch_size, **{"infer.num_fillings": num_fillings}
  )
  task_feature_lengths = inputs.whole_lengths(converter, task_feature_lengths)
  vocabulary = find_vocabulary(
    mixture_or_task_name,
    prepared_dir,
    vocabulary_path,
    extra_ids,
    form=converter.form,
  )
  inputs.check_vocabulary(model, vocabulary, repr(vocabulary.path))
  inputs.check_converter(model, converter)
  if converter.writes:
    scoring.check_decoding(model, decoding, task_feature_lengths["targets"])
  checkpoint = ensembles.locate(checkpoint_path)
  model = ensembles.model_of(model, checkpoint)
  mesh = partitioning.mesh()
  if one_by_one:
    batch_size = batch_shares(mesh)
  features = ("inputs", "targets") if scored else ("inputs",)
  examples = check_texts(examples, features)
  if reading is not None:
    reading.model_of(model)  # Checks both.
  elif not converter.writes:
    reading = encoder_answers.HeadAnswers.of(
      model,
      converter,
      checkpoint[0],
      mixture_or_task_name,
      prepared_dir,
      scorer=scorer,
      num_fillings=num_fillings,
    )
  if reading is not None:
    if scored:
      raise UserError(
        "--score gives the log-likelihoods of texts that a model writes, and "
        "an encoder writes none; zoo evaluate scores the labels of a task"
      )
    examples = reading.check(examples, vocabulary)
  elif scored:
    examples = check_no_prefixes(examples)
  else:
    examples = check_prefixes(
      examples,
      vocabulary,
      decoding.with_length(task_feature_lengths["targets"]),
    )
  if converters.continues(converter) and not decoding.start_before_prompt:
    examples = check_prompts(examples, vocabulary)
  examples = distributed.shared(
    "the examples", examples, 1 if one_by_one else batch_size
  )
  if not one_by_one:
    # A bad example is refused before anything is computed.
    examples = list(examples)
  with partitioning.activate(mesh):

    def compute(examples, first=0):
      parts = {
        "params": restoration.restore(
          model,
          partitioning,
          mesh,
          batch_size,
          *checkpoint,
          vocabularies=[vocabulary],
          class_names=getattr(reading, "class_names", ()),
        ),
        "mesh": mesh,
        "batch_size": batch_size,
        "converter": converter,
        "report": _say,
      }
      make = answering.Answering if reading is None else reading.answering
      answers = make(
        model,
        vocabulary,
        lengths=task_feature_lengths,
        decoding=decoding,
        **parts,
      )
      if scored:
        return answers.scores(examples, first)
      if one_by_one:
        singles = ([example] for example in examples)
        return itertools.chain.from_iterable(
          answers.answers(single, first) for first, single in enumerate(singles)
        )
      return answers.answers(examples, first)

    if journal_path is None:
      batches = compute(examples)
    else:
      parts = fingerprint.of_inference(
        model,
        checkpoint,
        vocabulary,
        examples,
        lengths=task_feature_lengths,
        batch_size=batch_size,
        converter=converter,
        decoding=decoding,
        scored=scored,
        settings={} if reading is None else {"answers": str(reading)},
      )
      batches = _journalled(
        pathlib.Path(journal_path), parts, examples, compute
      )
    yield from itertools.chain.from_iterable(batches)


def check_texts(
  examples: Iterable[Example], features: Sequence[str]
) -> Iterator[Example]:
  """Yields the examples, whose features have to be texts.

  Args:
    examples: The examples.
    features: The names of the features that each has to have.

  Raises:
    UserError: An example lacks a feature, or the feature or its `prefix` is no
      text.
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
  """Yields the examples, whose prefixes have to fit into an output.

  Args:
    examples: The examples.
    vocabulary: The vocabulary of the targets.
    decoding: The options of the search, with their `max_length`.

  Raises:
    UserError: The `prefix` of an example is longer than an output may be.
  """
  for number, example in enumerate(examples, 1):
    try:
      decoding.check_prefix(
        len(vocabulary.encode_targets(example.get("prefix", "")))
      )
    except UserError as error:
      raise UserError(f"example {number}: {error}") from None
    yield example


def check_no_prefixes(examples: Iterable[Example]) -> Iterator[Example]:
  """Yields the examples, whose targets are scored from their first token on.

  Args:
    examples: The examples.

  Raises:
    UserError: An example has a `prefix`, which an answer's log-likelihood
      leaves out and that of targets cannot.
  """
  for number, example in enumerate(examples, 1):
    if example.get("prefix"):
      raise UserError(
        f"example {number} has the prefix {example['prefix']!r}, and --score "
        "scores its targets from the first token on; begin the targets with "
        "it, and leave the prefix out"
      )
    yield example


def check_prompts(
  examples: Iterable[Example], vocabulary: Vocabulary
) -> Iterator[Example]:
  """Yields the examples, which a model reads without a start token.

  Args:
    examples: The examples.
    vocabulary: The vocabulary of the inputs.

  Raises:
    UserError: The inputs of an example have no token.
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


def _journalled(path, parts, examples, compute):
  """Yields the batches of the journal, then the others, and adds these to it.

  The first process reads and writes the journal.
  """
  writes = distributed.is_first()
  with Journal(path, parts, writes=writes, report=_say) as journal:
    known = distributed.share("the journal", lambda: list(journal.batches))
    done = sum(map(len, known))
    if done:
      _say(f"{done} of {len(examples)} examples are in {path} from before")
    yield from known
    if done < len(examples):
      for batch in compute(examples[done:], done):
        journal.append(batch)
        yield batch


def find_vocabulary(
  mixture_or_task_name: str | None,
  prepared_dir: str,
  path: str | None,
  extra_ids: int | None,
  *,
  form: str | None = None,
) -> Vocabulary:
  """Returns the vocabulary that is named, or that of a prepared task.

  Args:
    mixture_or_task_name: The name of a prepared mixture or task, or None.
    prepared_dir: The folder of prepared data.
    path: The path of the vocabulary's files; None for that of the task.
    extra_ids: The number of its sentinels; None for the usual number.
    form: The form of an encoder in which the task is prepared; None for text.

  Raises:
    UserError: Neither is named, or the task is not prepared.
  """
  if path is not None:
    return Vocabulary(path, extra_ids)
  if mixture_or_task_name is not None:
    name = forms.name_in_form(mixture_or_task_name, form)
    return manifest.load(name, prepared_dir).tasks[0].vocabulary
  raise UserError(
    "no vocabulary: name its file with --vocabulary, or the task that the "
    "model was trained on with --gin.MIXTURE_OR_TASK_NAME=..."
  )


def _say(text: str) -> None:
  if distributed.is_first():
    print(text, file=sys.stderr, flush=True)
