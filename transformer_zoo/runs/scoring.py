"""What training and evaluation share: the evaluator, restored parameters."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import sys

from flax import linen as nn
import jax

from transformer_zoo.architectures.encoder_decoder import EncoderDecoder
from transformer_zoo.architectures.ensemble import Ensemble
from transformer_zoo.data.features import converters
from transformer_zoo.data.loader.evaluation_split import ENCODER_DECODER
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.evaluator import Evaluator
from transformer_zoo.objectives.sequence_to_sequence import example_sums
from transformer_zoo.processes import distributed
from transformer_zoo.runs import checkpoint_sources
from transformer_zoo.runs import decoding_memory
from transformer_zoo.runs import ensembles
from transformer_zoo.runs import inputs
from transformer_zoo.runs import restoration
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.sharding import partitioning as partitioning_lib
from transformer_zoo.training.sharding.partitioning import Partitioning

# Stands for EOS where a vocabulary has none.
NO_END = -1


def make_evaluator(
  model: nn.Module,
  mesh: jax.sharding.Mesh,
  lengths: Mapping[str, int],
  batch_size: int,
  max_examples: int | None,
  corruption: Callable | None = None,
  decoding: DecodingOptions = GREEDY,
  converter: converters.Converter = ENCODER_DECODER,
  *,
  vocabulary: Vocabulary,
) -> Evaluator:
  """An evaluator whose batches divide over the mesh.

  Every process reads whole batches and computes its share of their rows. One
  output is made for each example, whatever `num_return` is.

  Raises:
    UserError: the model does not read what the converter lays out, or the
      decoding options do not fit it or the length of the targets.
  """
  inputs.check_converter(model, converter)
  lengths = inputs.whole_lengths(converter, lengths)
  check_decoding(model, decoding, lengths["targets"])
  # The best is scored; it is the same however many are returned.
  decoding = dataclasses.replace(decoding, num_return=1)
  shares = partitioning_lib.batch_shares(mesh)
  rows = -(-batch_size // shares) * shares
  make_texts = functools.partial(
    best_tokens,
    model,
    max_length=lengths["targets"],
    options=decoding,
    **special_ids(vocabulary, converter),
  )
  return Evaluator(
    generate=decoding_memory.with_room(
      jax.jit(make_texts), decoding.with_length(lengths["targets"]), mesh
    ),
    example_sums=make_example_sums(model, decoding),
    put=functools.partial(partitioning_lib.put_whole_batch, mesh=mesh),
    fetch=partitioning_lib.fetch_whole,
    lengths=lengths,
    batch_size=rows,
    max_examples=max_examples,
    corruption=corruption,
    decoding=decoding,
    converter=converter,
  )


def check_decoding(
  model: nn.Module, decoding: DecodingOptions, length: int
) -> None:
  """Compares decoding options with a model, before anything is compiled.

  Args:
    model: an architecture, or an ensemble.
    decoding: what is asked of it.
    length: of the targets.

  Raises:
    UserError: the options do not fit the length, the model has no token of an
      id that they name, or it cannot do without a start token.
  """
  decoding.with_length(length)
  member = model.members[0] if isinstance(model, Ensemble) else model
  if isinstance(member, EncoderDecoder) and not decoding.start_before_prompt:
    raise UserError(
      "start_before_prompt=False: the decoder of an encoder-decoder has to be "
      "fed a start token; leave the option out"
    )
  number = ensembles.number_of_logits(member)
  for name in ("forced_prefix", "forbidden_ids", "end_ids"):
    for some in getattr(decoding, name):
      if not 0 <= some < number:
        raise UserError(
          f"{name} has the id {some}, but the model has tokens from 0 to "
          f"{number - 1}; choose among these"
        )


def make_example_sums(model: nn.Module, decoding: DecodingOptions) -> Callable:
  """The compiled `example_sums` of a model.

  Without a start token before a prompt, the first place of every row falls
  away: what is read there, and the loss of what follows it.
  """

  def of_batch(params, batch):
    if not decoding.start_before_prompt:
      batch = {name: array[:, 1:] for name, array in batch.items()}
    return example_sums(model, params, batch)

  return jax.jit(of_batch)


def special_ids(
  vocabulary: Vocabulary, converter: converters.Converter
) -> dict[str, int]:
  """What `generate` needs to know: ids, and how a decoder was fed."""
  # BERT's vocabularies have a separator in its place, GPT's has neither:
  # nothing has the id -1.
  ends = (vocabulary.eos_id, vocabulary.sep_id, NO_END)
  starts = getattr(converter, "bos_id", None)  # an encoder's has none
  return {
    "start_id": vocabulary.pad_id if starts is None else starts,
    "eos_id": next(i for i in ends if i is not None),
    "pad_id": vocabulary.pad_id,
  }


def best_tokens(
  model: nn.Module,
  params,
  inputs_BM: jax.Array,
  **keywords,
) -> jax.Array:
  """Of each row the best of what `generate` makes, [B, L]."""
  return generate(model, params, inputs_BM, **keywords).tokens[:, 0]


def restore(
  model: nn.Module,
  partitioning: Partitioning,
  mesh: jax.sharding.Mesh,
  batch_size: int,
  *checkpoint_paths: str,
  vocabularies: Sequence[Vocabulary] = (),
):
  """The parameters in a checkpoint, laid out on the mesh.

  Args:
    model: an architecture, or an ensemble of as many members as paths.
    partitioning: rules.
    mesh: the devices.
    batch_size: rows of the batches to come.
    *checkpoint_paths: as `checkpoint_sources.open_source` takes them.
    vocabularies: whose ids it will read; where the checkpoint's are others,
      stderr has a note.

  Raises:
    UserError: model or batch do not divide over the mesh, or the checkpoint is
      damaged, or not the model's.
  """
  if isinstance(model, Ensemble):
    pairs = zip(model.members, checkpoint_paths, strict=True)
    return {
      f"members_{i}": restore(
        member, partitioning, mesh, batch_size, path, vocabularies=vocabularies
      )
      for i, (member, path) in enumerate(pairs)
    }
  (checkpoint_path,) = checkpoint_paths
  boxed = state_lib.abstract_variables(model)
  partitioning.check(mesh, boxed, batch_size)
  source = checkpoint_sources.open_source(checkpoint_path)
  if not source.of_a_run:  # A run's own model is changed on purpose here.
    restoration.check_mathematics(model, source)
  note = restoration.vocabulary_note(source.find_vocabulary(), vocabularies)
  if note and distributed.is_first():
    print(f"note on {source.name}: {note}", file=sys.stderr, flush=True)
  found = restoration.Restoration.of(source, boxed)
  shapes = state_lib.abstract_params(model)
  shardings = partitioning.shardings(mesh, boxed, shapes)
  return found.place(partitioning_lib.abstract(shapes, shardings))
