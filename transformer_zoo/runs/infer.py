"""Answers of a checkpoint to texts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import itertools
import pathlib
import sys
from typing import Any

from flax import linen as nn
import gin

from transformer_zoo.data.features import converters as features_lib
from transformer_zoo.data.features import prompts
from transformer_zoo.data.loader.evaluation_split import ENCODER_DECODER
from transformer_zoo.data.storage import manifest
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.effects import Place
from transformer_zoo.effects import Speed
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.journal import Journal
from transformer_zoo.processes import distributed
from transformer_zoo.runs import answering
from transformer_zoo.runs import ensembles
from transformer_zoo.runs import fingerprint
from transformer_zoo.runs import inputs
from transformer_zoo.runs import restoration
from transformer_zoo.runs import scoring
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
  converter: features_lib.Converter = ENCODER_DECODER,
  decoding: DecodingOptions = GREEDY,
  scored: bool = False,
  one_by_one: bool = False,
  journal_path: Place[str | None] = None,
) -> Iterator[dict[str, Any]]:
  """Answers texts, or scores targets that are given.

  Args:
    examples: their `inputs` as the model was trained on, task prefix included,
      and `targets` if they are scored; a `prefix`, if any, is what the answer
      begins with; anything else is handed through, but for an answer or a
      score from before. A language model that was trained on targets alone
      continues `inputs`. Of several processes the first reads them and hands
      them on.
    model: an architecture.
    checkpoint_path: a run folder or the folder of one step, a Hugging Face
      directory, or a T5X checkpoint; several answer as an ensemble.
    task_feature_lengths: feature -> tokens; longer texts are cut, and it is
      told.
    batch_size: texts at a time.
    mixture_or_task_name: a prepared one, whose vocabulary is taken.
    prepared_dir: where it lies.
    vocabulary_path: a vocabulary to take instead, of any kind.
    extra_ids: its sentinels, by default as is usual for the kind.
    partitioning: mesh and rules.
    converter: lays examples out as the model reads them (data/features.py).
    decoding: how outputs are searched for.
    scored: gives the log-likelihood of the targets and decodes nothing.
    one_by_one: answers each example before the next one is read.
    journal_path: a file that keeps what is done: started again after a kill,
      the rest is computed.

  Yields:
    Each example with what `answering.Answering` adds to it.

  Raises:
    UserError: the configuration or an example cannot be used as it is.
  """
  if batch_size < 1:
    raise UserError(f"BATCH_SIZE={batch_size} must be at least 1")
  task_feature_lengths = inputs.whole_lengths(converter, task_feature_lengths)
  vocabulary = _vocabulary(
    mixture_or_task_name, prepared_dir, vocabulary_path, extra_ids
  )
  inputs.check_vocabulary(model, vocabulary, repr(vocabulary.path))
  inputs.check_converter(model, converter)
  scoring.check_decoding(model, decoding, task_feature_lengths["targets"])
  checkpoint = ensembles.locate(checkpoint_path)
  model = ensembles.model_of(model, checkpoint)
  mesh = partitioning.mesh()
  if one_by_one:
    batch_size = batch_shares(mesh)
  features = ("inputs", "targets") if scored else ("inputs",)
  examples = check_texts(examples, features)
  if not scored:
    examples = check_prefixes(
      examples,
      vocabulary,
      decoding.with_length(task_feature_lengths["targets"]),
    )
  if prompts.continues(converter) and not decoding.start_before_prompt:
    examples = check_prompts(examples, vocabulary)
  examples = distributed.shared(
    "the examples", examples, 1 if one_by_one else batch_size
  )
  if not one_by_one:
    # A bad one is told before anything is computed.
    examples = list(examples)
  with partitioning.activate(mesh):

    def compute(examples, first=0):
      answers = answering.Answering(
        model,
        vocabulary,
        params=restoration.restore(
          model,
          partitioning,
          mesh,
          batch_size,
          *checkpoint,
          vocabularies=[vocabulary],
        ),
        mesh=mesh,
        lengths=task_feature_lengths,
        batch_size=batch_size,
        converter=converter,
        decoding=decoding,
        report=_say,
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
      )
      batches = _journalled(
        pathlib.Path(journal_path), parts, examples, compute
      )
    yield from itertools.chain.from_iterable(batches)


def check_texts(
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


def _journalled(path, parts, examples, compute):
  """The batches of the journal, then the others, which are added to it.

  It is the first process that reads and writes the journal.
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


def _vocabulary(mixture_or_task_name, prepared_dir, path, extra_ids):
  if path is not None:
    return Vocabulary(path, extra_ids)
  if mixture_or_task_name is not None:
    mixture = manifest.load(mixture_or_task_name, prepared_dir)
    return mixture.tasks[0].vocabulary
  raise UserError(
    "no vocabulary: name its file with --vocabulary, or the task that the "
    "model was trained on with --gin.MIXTURE_OR_TASK_NAME=..."
  )


def _say(text: str) -> None:
  if distributed.is_first():
    print(text, file=sys.stderr, flush=True)
