"""Evaluators: decoding and scoring functions of a model, and their checks."""

from collections.abc import Callable, Mapping
import dataclasses
import functools
import importlib
import typing
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp

from transformer_zoo.data.features import converters
from transformer_zoo.data.features import forms
from transformer_zoo.data.features.converters import ENCODER_DECODER
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.errors import UserError
from transformer_zoo.evaluation import scorers
from transformer_zoo.evaluation.evaluator import Evaluator
from transformer_zoo.evaluation.scorers.text import TextScorer
from transformer_zoo.objectives.sequence_to_sequence import example_sums
from transformer_zoo.runs import inputs
from transformer_zoo.training.sharding import partitioning as partitioning_lib

if typing.TYPE_CHECKING:
  from transformer_zoo.evaluation.scorers.interface import Scorer

# Stands for EOS where a vocabulary has none.
NO_END = -1
_GIB = 2**30


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
  scorer: "Callable[..., Scorer] | None" = None,
) -> Evaluator:
  """Makes an evaluator whose batches divide over the mesh.

  Every process reads whole batches and computes its share of their rows. One
  output is made for each example, whatever `num_return` is.

  Args:
    model: The architecture, or an ensemble.
    mesh: The mesh of devices.
    lengths: The number of tokens of each feature.
    batch_size: The number of examples of a batch, rounded up to a multiple of
      the shares of the mesh.
    max_examples: The largest number of examples of a split; None for all.
    corruption: The corruption of unlabelled tasks; None for their own.
    decoding: The options of the search for outputs.
    converter: The layout of a batch.
    vocabulary: The vocabulary, for its special ids.
    scorer: See `make_encoder_scorer`.

  Raises:
    UserError: The model cannot read what the converter lays out, or the
      decoding options do not fit the model or the length of the targets.
  """
  inputs.check_converter(model, converter)
  lengths = inputs.whole_lengths(converter, lengths)
  shares = partitioning_lib.batch_shares(mesh)
  rows = -(-batch_size // shares) * shares
  if not converter.writes:
    made = make_encoder_scorer(model, converter, scorer)
  else:
    made = _make_text_scorer(
      model, mesh, lengths, decoding, special_ids(vocabulary, converter)
    )
  return Evaluator(
    scorer=made,
    put=functools.partial(partitioning_lib.put_whole_batch, mesh=mesh),
    fetch=partitioning_lib.fetch_whole,
    lengths=lengths,
    batch_size=rows,
    max_examples=max_examples,
    corruption=corruption,
    converter=converter,
  )


def _make_text_scorer(model, mesh, lengths, decoding, ids) -> TextScorer:
  if model.offers.writes is None:
    return TextScorer(example_sums=make_example_sums(model, decoding))
  check_decoding(model, decoding, lengths["targets"])
  # The best is scored; it is the same however many are returned.
  decoding = dataclasses.replace(decoding, num_return=1)
  make_texts = functools.partial(
    best_tokens,
    model,
    max_length=lengths["targets"],
    options=decoding,
    **ids,
  )
  return TextScorer(
    example_sums=make_example_sums(model, decoding),
    generate=with_room(
      jax.jit(make_texts), decoding.with_length(lengths["targets"]), mesh
    ),
    decoding=decoding,
  )


def head_of(
  converter: converters.Encoder, scorer: Callable | None = None
) -> str:
  """The head that answers a form, by the usual scorer or by a given one.

  Raises:
    UserError: Each of several tasks has a head of its own.
  """
  if converter.heads:
    raise UserError(
      "the model has a head for each of the tasks "
      f"{', '.join(map(repr, converter.heads))}; choose one: "
      f'--gin.infer.task="{next(iter(converter.heads))!r}"'
    )
  form = converter.form
  usual = "tokens" if form is None else forms.FORMS[form].head
  return converter.head or getattr(scorer, "head", usual)


def make_encoder_scorer(
  model: nn.Module,
  converter: converters.Encoder,
  scorer: "Callable[..., Scorer] | None" = None,
) -> "Scorer":
  """Makes the scorer of a form, or of masked tokens.

  Args:
    model: An encoder.
    converter: The layout of a batch, which names the form.
    scorer: The class of a form's scorer, made of the function that computes the
      logits of the head; None for the usual one.

  Raises:
    UserError: The model has not the head that the form needs.
  """
  if converter.heads:
    from transformer_zoo.evaluation.scorers.tasks import OfTasks

    return OfTasks(
      {
        task: make_encoder_scorer(model, converter.of_task(task), scorer)
        for task in sorted(converter.heads)
      }
    )
  form = converter.form
  head = head_of(converter, scorer)
  if form is None and model.offers.fine_tuned is not None:
    from transformer_zoo.objectives import replaced_tokens

    sums = functools.partial(replaced_tokens.example_sums, model)
    return TextScorer(example_sums=jax.jit(sums))
  model.check_head(head)
  # A run imports the objective and the scorer that it needs.
  if form is None:
    from transformer_zoo.objectives import encoder

    sums = functools.partial(encoder.example_sums, model)
    return TextScorer(example_sums=jax.jit(sums))
  if scorer is None:
    module, name = forms.FORMS[form].scorer.split(".")
    module = importlib.import_module(f"{scorers.__name__}.{module}")
    scorer = functools.partial(
      getattr(module, name), answering=converter.answering
    )
  if head == "span_beam" and model.offers.members:
    raise UserError(
      "the ends of heads/span_beam.gin depend on the starts that each model "
      "finds, so that several models have no mean of them; give one "
      "--checkpoint, or train with heads/spans.gin"
    )

  return scorer(jax.jit(functools.partial(head_logits, model, converter, head)))


def head_logits(
  model: nn.Module,
  converter: converters.Encoder,
  head: str,
  params,
  batch: Mapping[str, jax.Array],
) -> jax.Array:
  """Returns the logits of a head of an encoder, float32.

  Args:
    model: An encoder, or an ensemble.
    converter: The layout of a batch, which names the form.
    head: The name of the head.
    params: The parameters of the model.
    batch: The features of some rows.

  Returns:
    [B, 1, C] of the token that answers where the form has one, else [B, L, C];
    in the form "embedding" the vectors of texts, [B, T, E].
  """
  apply = functools.partial(model.apply, {"params": params})
  hidden_BLD = apply(batch, method="hidden")
  if converter.form == "embedding":
    from transformer_zoo.objectives import embeddings

    return embeddings.vectors_of(
      apply, hidden_BLD, batch, model.offers.pad_id, converter.num_texts
    )
  places_B1, keywords = None, {}
  if head == "span_beam":
    from transformer_zoo.modules import span_beam

    real_BL = batch["encoder_input_tokens"] != model.pad_id
    keywords["may_answer_BL"] = span_beam.may_answer(batch, real_BL)
  if converter.answers_at_one_token:
    tokens_BL = batch["encoder_input_tokens"]
    places_B1 = jnp.zeros((tokens_BL.shape[0], 1), jnp.int32)
    if converter.answering == "last":
      real_BL = tokens_BL != model.offers.pad_id
      places_B1 += jnp.sum(real_BL, axis=1)[:, None] - 1
  return apply(
    hidden_BLD, head, places_BP=places_B1, method="logits", **keywords
  )


def check_decoding(
  model: nn.Module, decoding: DecodingOptions, length: int
) -> None:
  """Compares decoding options with a model before anything is compiled.

  Args:
    model: The architecture, or an ensemble.
    decoding: The options of the search.
    length: The number of tokens of the targets.

  Raises:
    UserError: The options do not fit the length, the model has no token of an
      id that they name, or it needs a start token that they leave out.
  """
  decoding.with_length(length)
  offers = model.offers
  if offers.writes == "answer" and not decoding.start_before_prompt:
    raise UserError(
      "start_before_prompt=False: the decoder of an encoder-decoder has to be "
      "fed a start token; leave the option out"
    )
  number = offers.num_outputs
  last = decoding.forced_last
  lasts = () if last is None else (last,)
  for name, ids in {
    "forced_prefix": decoding.forced_prefix,
    "forced_last": lasts,
    "forbidden_ids": decoding.forbidden_ids,
    "end_ids": decoding.end_ids,
  }.items():
    for some in ids:
      if not 0 <= some < number:
        raise UserError(
          f"{name} has the id {some}, but the model has tokens from 0 to "
          f"{number - 1}; choose among these"
        )


def make_example_sums(model: nn.Module, decoding: DecodingOptions) -> Callable:
  """Returns the compiled `example_sums` of a model.

  Without a start token before a prompt, the first place of every row is left
  out, both as an input and in the loss.
  """
  if model.offers.writes == "masks":
    # A run of another model does not need the objective.
    from transformer_zoo.objectives import unified

    return jax.jit(functools.partial(unified.example_sums, model))
  if model.offers.direction == "permuted":
    from transformer_zoo.objectives import encoder

    return jax.jit(functools.partial(encoder.example_sums, model))

  def of_batch(params, batch):
    if not decoding.start_before_prompt:
      batch = {name: array[:, 1:] for name, array in batch.items()}
    return example_sums(model, params, batch)

  return jax.jit(of_batch)


def special_ids(
  vocabulary: Vocabulary, converter: converters.Converter
) -> dict[str, int]:
  """Returns the ids that `generate` starts, ends and pads outputs with."""
  # BERT's vocabularies have a separator in its place, GPT's has neither:
  # nothing has the id -1.
  ends = (vocabulary.eos_id, vocabulary.sep_id, NO_END)
  return {
    "start_id": converters.start_id(converter, vocabulary.pad_id),
    "eos_id": next(i for i in ends if i is not None),
    "pad_id": vocabulary.pad_id,
  }


def best_tokens(
  model: nn.Module,
  params,
  inputs_BM: jax.Array,
  **keywords,
) -> jax.Array:
  """Returns the best output of each row, int32 [B, L]."""
  # A run without scored tasks decodes nothing.
  from transformer_zoo.decoding.generate import generate

  return generate(model, params, inputs_BM, **keywords).tokens[:, 0]


def with_room(
  jitted: Any, decoding: DecodingOptions, mesh: jax.sharding.Mesh
) -> Callable:
  """Adds a check of the devices' memory to a jitted `generate`.

  Args:
    jitted: The function of parameters, and arrays of a batch by name.
    decoding: The options of the search, with their `max_length`.
    mesh: The mesh of devices.

  Returns:
    The function, which raises UserError before it compiles what does not fit.
  """
  known = set()

  def call(params, **batch):
    shapes = tuple((name, array.shape) for name, array in batch.items())
    if shapes not in known:
      rows = len(batch["inputs_BM"])
      _check_room(
        jitted.trace(params, **batch).jaxpr.jaxpr, decoding, mesh, rows
      )
      known.add(shapes)
    return jitted(params, **batch)

  return call


def _check_room(jaxpr, decoding, mesh, rows) -> None:
  from transformer_zoo.forecast import compilation

  needed = compilation.least_bytes(jaxpr) // mesh.size
  there = compilation.device_bytes(mesh.local_devices[0])
  if there is None or needed <= there:
    return
  outputs = max(decoding.num_beams, decoding.num_return)
  name = "num_beams" if decoding.num_beams > 1 else "num_return"
  raise UserError(
    f"{name}={outputs} for {rows} texts at a time, of up to "
    f"{decoding.max_length} tokens each, needs {needed / _GIB:,.1f} GiB or "
    f"more on each device, which has {there / _GIB:,.1f} GiB; choose a smaller "
    f"{name}, BATCH_SIZE or max_length"
  )
