"""The checkpoint that a run starts from."""

from collections.abc import Sequence
import dataclasses
import math

from flax import linen as nn
import gin

from transformer_zoo import parameter_names
from transformer_zoo.errors import UserError


@gin.register
def first_layers(
  num_read: int,
  num_layers: int,
  stack: str = "encoder",
  source: str = "",
  fresh: Sequence[str] = (),
) -> tuple[tuple[str, str | None], ...]:
  """Returns assignments that read the first layers of a stack alone.

  The layers after them stay fresh (Radford et al. 2018, section 5, figure 2).

  Args:
    num_read: The number of layers that are read.
    num_layers: The number of layers of the stack.
    stack: The name of the stack in the model.
    source: The name of the stack in the checkpoint; the same one if "".
    fresh: Expressions of further parameters that stay fresh.

  Raises:
    UserError: There are not so many layers.
  """
  if not 0 <= num_read <= num_layers:
    raise UserError(
      f"first_layers.num_read is {num_read}, but the stack has {num_layers} "
      f"layers; choose 0 to {num_layers}"
    )
  names = "|".join([*(f"layers_{i}" for i in range(num_read)), "(?!layers_).*"])
  read = (rf"{stack}/((?:{names})/.*)", rf"{source or stack}/\1")
  unread = [f"{stack}/layers_.*"] * (num_read < num_layers)
  return (read, *((name, None) for name in (*unread, *fresh)))


@gin.register
def layers_of_decoder(
  num_read: int, encoder_layers: int, decoder_layers: int
) -> tuple[tuple[str, str | None], ...]:
  r"""Returns assignments of an encoder-decoder from a decoder-only checkpoint.

  Both stacks take the layers of the decoder, attention to the encoder those of
  its attention to itself (Zhang et al. 2025, section 3). A layer takes the one
  at its own relative depth (`parameter_names.layer_at_depth`).

  Args:
    num_read: The number of layers of the checkpoint.
    encoder_layers: The number of layers of the encoder.
    decoder_layers: The number of layers of the decoder.

  Raises:
    UserError: One of them has no layer.
  """
  numbers = {
    "num_read": num_read,
    "encoder_layers": encoder_layers,
    "decoder_layers": decoder_layers,
  }
  for name, number in numbers.items():
    if number < 1:
      raise UserError(
        f"layers_of_decoder.{name} is {number}; it takes 1 or more"
      )

  def layers(stack, number):
    for layer in range(number):
      read = parameter_names.layer_at_depth(layer, number, num_read)
      yield f"{stack}/layers_{layer}/", f"decoder/layers_{read}/"

  rules = []
  for ours, theirs in layers("encoder", encoder_layers):
    rules += [
      (rf"{ours}(|pre_|post_)(attention.*)", rf"{theirs}\1self_\2"),
      (rf"{ours}(.*)", rf"{theirs}\1"),
    ]
  for ours, theirs in layers("decoder", decoder_layers):
    rules += [
      (rf"{ours}encoder_decoder_(attention/.*)", rf"{theirs}self_\1"),
      (rf"{ours}(|pre_|post_)cross_(attention.*)", rf"{theirs}\1self_\2"),
      (rf"{ours}(.*)", rf"{theirs}\1"),
    ]
  return (
    *rules,
    (r"encoder/encoder_norm/(.*)", r"decoder/decoder_norm/\1"),
    (r"encoder/(.*)", r"decoder/\1"),
    (r"target_embedder/(.*)", r"token_embedder/\1"),
    # What neither stack takes.
    (r"decoder/layers_.*", None),
  )


@gin.register
def teacher_of(path: str | None, looped: bool = False) -> nn.Module:
  """Returns the model of a checkpoint that teaches another one.

  Args:
    path: The path of the checkpoint, as `InitialCheckpoint.path`.
    looped: Whether its layers are looped and not scanned, so that attention is
      read (`Distillation.attention_scale`).

  Raises:
    UserError: There is no such checkpoint, or its model is unknown.
  """
  if path is None:
    raise UserError(
      "INITIAL_CHECKPOINT_PATH is None; it names the teacher of a distillation"
    )
  # A run without a teacher loads no reader of checkpoints.
  from transformer_zoo.checkpoints import checkpoint_sources
  from transformer_zoo.peft import substitution

  source = checkpoint_sources.open_source(path)
  model = source.make_model()
  if model is None:
    raise UserError(f"the model of {source.name} is unknown; convert it first")

  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    has_layers = hasattr(part, "scan") and hasattr(part, "remat")
    return part.clone(scan=False, remat="none") if has_layers else part

  return substitution.rebuilt(model, rule) if looped else model


@gin.register
def teacher_like(model: nn.Module, num_layers: int) -> nn.Module:
  """Returns the model of a teacher that is a student of another depth.

  A study plans its runs before there is a checkpoint whose model `teacher_of`
  could return.

  Args:
    model: The student.
    num_layers: The number of layers of each stack.
  """
  from transformer_zoo.peft import substitution

  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    has_layers = hasattr(part, "num_layers")
    return part.clone(num_layers=num_layers) if has_layers else part

  return substitution.rebuilt(model, rule)


@gin.register
def layers_of_teacher(
  student: nn.Module,
  teacher: nn.Module,
  layers: Sequence[int] | None = None,
  fresh: bool = False,
) -> tuple[tuple[str, str | None], ...]:
  r"""Returns assignments of a student and its teacher from the teacher.

  Args:
    student: The model that is taught.
    teacher: The model of the checkpoint.
    layers: The layer that each of the student's begins as; None for those at
      its own relative depth (`parameter_names.layer_at_depth`).
    fresh: Whether the student begins anew.

  Raises:
    UserError: `layers` has not one layer of the teacher for each.
  """
  of_teacher = (r"teacher/(.*)", r"\1")
  if fresh:
    return of_teacher, (r"(?!teacher/).*", None)
  rules = []
  for side, transformer in student.offers.transformers.items():
    number = transformer.layer_stack.num_layers
    there = teacher.offers.transformers.get(side, transformer)
    there = there.layer_stack.num_layers
    read = layers
    if read is None:
      read = [
        parameter_names.layer_at_depth(layer, number, there)
        for layer in range(number)
      ]
    if len(read) != number or not all(0 <= layer < there for layer in read):
      raise UserError(
        f"layers_of_teacher.layers is {tuple(read)}; it takes {number} numbers "
        f"from 0 to {there - 1}, a layer of the teacher's {side} for each layer"
      )
    rules += [
      (rf"{side}/layers_{ours}/(.*)", rf"{side}/layers_{theirs}/\1")
      for ours, theirs in enumerate(read)
    ]
  return of_teacher, *rules


@gin.register
@dataclasses.dataclass(frozen=True)
class InitialCheckpoint:
  r"""A checkpoint to start from, and how the run may differ from it.

  Attributes:
    path: The path of a run folder or of a step in its checkpoints/, of a
      Hugging Face directory or of a T5X checkpoint; None for fresh parameters.
    assignments: Ordered (regular expression, name), as T5X's assignment_map
      without its `target/`: a parameter that an expression matches as a whole
      is read from that name (\1 is the first group), or stays fresh if it is
      None. Layers are always `layers_0`, `layers_1`, ... here.
    renamed: Further assignments, which come after those and may match none.
    fresh: Regular expressions of further parameters that stay fresh; unlike
      expressions in `assignments` they may match none.
    fresh_misfits: Regular expressions of parameters that all stay fresh if one
      of them has another shape in the checkpoint.
    ignore_unused: Whether parameters of the checkpoint that the model lacks are
      passed over.
    resize_vocabulary: Whether embeddings and logits may have another number of
      rows: the first are read, further ones stay fresh, those that no id uses
      are cut.
    match_pieces: Whether the rows of embeddings and logits go by the pieces of
      two vocabularies: a piece of both keeps its row, every other begins at the
      mean of the checkpoint's rows.
    resize_positions: Whether learned positions may have another number of rows;
      any of them may be cut.
    other_fields: The fields in which the model may differ from the checkpoint's
      although the parameters fit, by their whole or last names.
    resume: Whether the run continues the steps and the Adafactor state of the
      checkpoint, as T5X does; TRAIN_STEPS counts those steps. Otherwise only
      the parameters are read.
    loss_scale: The ratio of the loss in the checkpoint's training to the mean
      over the targets, used with `resume`. T5X divides the sum over the targets
      of a batch by its `loss_normalizing_factor`, or by nothing.
  """

  path: str | None = None
  assignments: Sequence[Sequence[str | None]] = ()
  renamed: Sequence[Sequence[str | None]] = ()
  fresh: Sequence[str] = ()
  fresh_misfits: Sequence[str] = ()
  ignore_unused: bool = False
  resize_vocabulary: bool = False
  match_pieces: bool = False
  resize_positions: bool = False
  other_fields: Sequence[str] = ()
  resume: bool = False
  loss_scale: float = 1.0

  def __post_init__(self):
    if not 0 < self.loss_scale < math.inf:
      raise UserError(
        f"InitialCheckpoint.loss_scale is {self.loss_scale}; it has to be a "
        "positive number, 1 where the loss was a mean over targets"
      )
    if self.path == "":
      raise UserError(
        "INITIAL_CHECKPOINT_PATH is '', which names no checkpoint"
      )
