"""What training and evaluation share: the evaluator, restored parameters."""

from collections.abc import Callable, Mapping
import functools

from flax import linen as nn
import jax

from transformer_zoo.data import features
from transformer_zoo.data.evaluation_split import ENCODER_DECODER
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation.evaluator import Evaluator
from transformer_zoo.experiment import checkpoint_sources
from transformer_zoo.experiment import restoration
from transformer_zoo.objectives.sequence_to_sequence import example_sums
from transformer_zoo.training import partitioning as partitioning_lib
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.partitioning import Partitioning


def make_evaluator(
  model: nn.Module,
  mesh: jax.sharding.Mesh,
  lengths: Mapping[str, int],
  batch_size: int,
  max_examples: int | None,
  corruption: Callable | None = None,
  decoding: DecodingOptions = GREEDY,
  converter: features.Converter = ENCODER_DECODER,
  *,
  vocabulary: Vocabulary,
) -> Evaluator:
  """An evaluator whose batches divide over the mesh.

  Every process reads whole batches and computes its share of their rows.

  Raises:
    UserError: the decoding options do not fit the length of the targets.
  """
  data_parallel = mesh.shape["data"]
  decoding.with_length(lengths["targets"])
  rows = -(-batch_size // data_parallel) * data_parallel
  make_texts = functools.partial(
    best_tokens,
    model,
    max_length=lengths["targets"],
    options=decoding,
    **special_ids(vocabulary),
  )
  return Evaluator(
    generate=jax.jit(make_texts) if hasattr(model, "decode_step") else None,
    example_sums=jax.jit(functools.partial(example_sums, model)),
    put=functools.partial(partitioning_lib.put_whole_batch, mesh=mesh),
    fetch=partitioning_lib.fetch_whole,
    lengths=lengths,
    batch_size=rows,
    max_examples=max_examples,
    corruption=corruption,
    decoding=decoding,
    converter=converter,
  )


def check_generates(model: nn.Module) -> None:
  """Raises UserError where a model cannot make texts, before anything runs."""
  if not hasattr(model, "decode_step"):
    raise UserError(
      f"MODEL is a {type(model).__name__}, and only an encoder-decoder reads "
      "inputs and generates text so far; choose another architecture."
    )


def special_ids(vocabulary: Vocabulary) -> dict[str, int]:
  """What `generate` needs to know of a vocabulary."""
  ends = vocabulary.eos_id
  return {
    "start_id": vocabulary.pad_id,
    # BERT's vocabularies have a separator in its place.
    "eos_id": vocabulary.sep_id if ends is None else ends,
    "pad_id": vocabulary.pad_id,
  }


def best_tokens(
  model: nn.Module,
  params,
  inputs_BM: jax.Array,
  example_ids_B: jax.Array | None = None,
  **keywords,
) -> jax.Array:
  """Of each row the best of what `generate` makes, [B, L]."""
  outputs = generate(
    model, params, inputs_BM, example_ids_B=example_ids_B, **keywords
  )
  return outputs.tokens[:, 0]


def restore(
  model: nn.Module,
  partitioning: Partitioning,
  mesh: jax.sharding.Mesh,
  batch_size: int,
  checkpoint_path: str,
):
  """The parameters in a checkpoint, laid out on the mesh.

  Raises:
    UserError: model or batch do not divide over the mesh, or the checkpoint is
      damaged, or not the model's.
  """
  boxed = state_lib.abstract_variables(model)
  partitioning.check(mesh, boxed, batch_size)
  source = checkpoint_sources.open_source(checkpoint_path)
  if not source.of_a_run:  # A run's own model is changed on purpose here.
    restoration.check_mathematics(model, source)
  found = restoration.Restoration.of(source, boxed)
  shapes = state_lib.abstract_params(model)
  shardings = partitioning.shardings(mesh, boxed, shapes)
  return found.place(partitioning_lib.abstract(shapes, shardings))
