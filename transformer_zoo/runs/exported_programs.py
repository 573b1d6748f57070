"""A model as StableHLO programs that a process with JAX alone runs.

A folder holds programs that `jax.export` has serialized, the weights that they
are given, and a manifest that says what they read and give. A program takes
`(weights, inputs)`, two mappings of arrays by name, and gives a mapping; its
batch size, and the length of its rows up to the run's, are left open. Attention
is computed by the reference kernel, which every platform has.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import json
import os
import pathlib
from typing import Any

from flax import linen as nn
from flax import traverse_util
import jax
from jax import export
import jax.numpy as jnp
import numpy as np

import transformer_zoo
from transformer_zoo.checkpoints import run_layout
from transformer_zoo.checkpoints import tokenizer_files
from transformer_zoo.conversion import target
from transformer_zoo.data.features import converters
from transformer_zoo.data.features import forms
from transformer_zoo.data.features import prompts
from transformer_zoo.data.vocabularies import Vocabulary
from transformer_zoo.decoding.generate import generate
from transformer_zoo.decoding.options import DecodingOptions
from transformer_zoo.decoding.options import GREEDY
from transformer_zoo.errors import UserError
from transformer_zoo.modules.attention.dot_product import KernelChoice
from transformer_zoo.modules.attention.dot_product import REFERENCE
from transformer_zoo.peft import substitution
from transformer_zoo.runs import inputs
from transformer_zoo.runs.answers import scoring
from transformer_zoo.runs.answers.answering import Widths
from transformer_zoo.runs.infer import Inference
from transformer_zoo.tensors import safetensors
from transformer_zoo.tensors.lazy_tensors import Tensor

Arrays = Mapping[str, jax.Array]

MANIFEST = "manifest.json"
WEIGHTS = "weights.safetensors"
VOCABULARY = "vocabulary"
# Names of `jax.export`; a program for several chooses where it is called.
ALL_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
PLATFORMS = ("cpu", "cuda", "tpu")
# Features of a batch that losses read and no model does.
_OF_LOSSES = (
  *("encoder_target_tokens", "encoder_loss_weights"),
  *("encoder_predicted_places", *converters.ROW_LABELS),
)


@dataclasses.dataclass(frozen=True)
class _Program:
  """A program before it is traced.

  Attributes:
    function: The function of parameters and inputs by name.
    inputs: The shapes of the inputs by name, each a string of symbols: `b` for
      the batch size, `l` and `t` for lengths. All are int32.
    longest: The largest value of each length.
    most_tokens: The largest sum of the lengths; None for theirs.
  """

  function: Callable[[Any, Arrays], dict[str, jax.Array]]
  inputs: Mapping[str, str]
  longest: Mapping[str, int]
  most_tokens: int | None = None

  def sizes(self, is_open: bool) -> dict[str, Any]:
    """Returns the size of each symbol: left open, or a length's largest."""
    if not is_open:
      return {"b": export.symbolic_shape("b")[0], **self.longest}
    limits = [f"{name} <= {most}" for name, most in self.longest.items()]
    if self.most_tokens is not None:
      limits.append(f"{' + '.join(self.longest)} <= {self.most_tokens}")
    names = ["b", *self.longest]
    sizes = export.symbolic_shape(", ".join(names), constraints=limits)
    return dict(zip(names, sizes, strict=True))


def write_checkpoint(
  folder: str | os.PathLike[str],
  inference: Inference,
  *,
  platforms: Sequence[str] = PLATFORMS,
  report: Callable[[str], None] = print,
) -> None:
  """Writes the programs of a checkpoint; see `write`.

  Args:
    folder: The folder to write, which does not exist.
    inference: The checkpoint and how it answers.
    platforms: The platforms that the programs run on.
    report: A function that is called with sentences on what was done.

  Raises:
    UserError: The configuration cannot be used, or as `write`.
  """
  inference.check()
  of_programs = {
    "converter": inference.converter,
    "lengths": inference.task_feature_lengths,
    "decoding": inference.decoding,
    "scorer": inference.scorer,
    "platforms": platforms,
  }
  check(folder, inference.whole_model, **of_programs)
  write(
    folder,
    inference.whole_model,
    inference.params,
    inference.vocabulary,
    class_names=inference.class_names,
    report=report,
    **of_programs,
  )


def check(
  folder: str | os.PathLike[str],
  model: nn.Module,
  *,
  converter: converters.Converter,
  lengths: Mapping[str, int],
  decoding: DecodingOptions,
  scorer: Callable[..., Any] | None,
  platforms: Sequence[str],
) -> None:
  """Checks the arguments of `write`, before parameters are read.

  Raises:
    UserError: As `write`.
  """
  if run_layout.is_url(folder):
    raise UserError(
      f"{str(folder)!r} is a URL, and programs are written into folders of "
      "this machine; name one, and copy it there"
    )
  target.check_absent(pathlib.Path(folder))
  unknown = [name for name in platforms if name not in ALL_PLATFORMS]
  if unknown or not platforms:
    raise UserError(
      f"platforms are {', '.join(unknown) or 'none'}; choose some of "
      f"{', '.join(ALL_PLATFORMS)}"
    )
  lengths = inputs.whole_lengths(converter, lengths)
  inputs.check_converter(model, converter)
  if not converter.writes:
    if prompts.length_of(converter):
      raise UserError(
        "a prompt of trained vectors precedes the rows of this encoder, which "
        "a program cannot be given as ids; export a model without one"
      )
    if converter.orders:
      raise UserError(
        "EncoderFeatures.orders is True: the model predicts tokens in a drawn "
        "order, which a program is not given; choose a head by one file of "
        "gin_configs/heads/"
      )
    model.check_head(scoring.head_of(converter, scorer))
    return
  of_pairs = converters.with_inputs(converter)
  if not isinstance(
    of_pairs, converters.EncoderDecoder | converters.PrefixLanguageModel
  ):
    raise UserError(
      f"rows of {type(of_pairs).__name__} are not laid out by a program; "
      "rows of EncoderDecoderFeatures, LanguageModelFeatures and "
      "PrefixLanguageModelFeatures are"
    )
  if getattr(of_pairs, "original_positions", False):
    raise UserError(
      "EncoderDecoderFeatures.original_positions is True, and a program does "
      "not know where targets stand in a text; set it to False"
    )
  scoring.check_decoding(model, decoding, lengths["targets"])


def write(
  folder: str | os.PathLike[str],
  model: nn.Module,
  params: Any,
  vocabulary: Vocabulary,
  *,
  converter: converters.Converter,
  lengths: Mapping[str, int],
  decoding: DecodingOptions = GREEDY,
  scorer: Callable[..., Any] | None = None,
  class_names: Sequence[str] = (),
  platforms: Sequence[str] = PLATFORMS,
  report: Callable[[str], None] = print,
) -> None:
  """Writes the programs of a model, its weights, vocabulary and a manifest.

  A model that writes has `generate` and `score`, an encoder `logits`. The
  compute dtype is the one that the model has on this machine. The folder is
  written aside and renamed when it is whole. Call it outside of
  `Partitioning.activate`: the programs are for one device.

  Args:
    folder: The folder, which does not exist.
    model: The architecture, or an ensemble.
    params: The parameters, without axis metadata.
    vocabulary: The vocabulary of the model.
    converter: The layout of a batch.
    lengths: The largest number of tokens of each feature.
    decoding: The options of the search that `generate` makes.
    scorer: The class that reads the head of an encoder, which may name another
      head than its form's; None for the usual one.
    class_names: The names of an encoder's classes or tags in order, or none.
    platforms: The platforms that the programs run on, of `ALL_PLATFORMS`.
    report: A function that is called with sentences on what was done.

  Raises:
    UserError: The folder exists, a platform is unknown, an encoder has no head,
      or the model writes in another way than from left to right.
  """
  check(
    folder,
    model,
    converter=converter,
    lengths=lengths,
    decoding=decoding,
    scorer=scorer,
    platforms=platforms,
  )
  folder = pathlib.Path(folder)
  lengths = inputs.whole_lengths(converter, lengths)
  ids = scoring.special_ids(vocabulary, converter)
  model = with_reference_kernels(model)
  if converter.writes:
    programs = text_programs(model, converter, lengths, decoding, ids)
  else:
    programs = _of_head(model, converter, lengths, scorer)
  leaves = dict(sorted(traverse_util.flatten_dict(params, sep="/").items()))
  tensors = {name: _tensor(leaf) for name, leaf in leaves.items()}
  target.check_room(folder, list(tensors.values()), np.dtype(np.float32))
  shapes = {
    name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    for name, leaf in leaves.items()
  }
  with target.written_aside(folder) as aside:
    (aside / VOCABULARY).mkdir(parents=True)
    described = {}
    for name, program in programs.items():
      file = f"{name}.stablehlo"
      exported, is_open = _exported(program, shapes, platforms)
      (aside / file).write_bytes(exported.serialize())
      described[name] = _described(file, program, exported)
      if not is_open:
        report(
          f"{folder}: rows of {name} have {program.longest['l']} tokens, "
          "because the model needs to know their length"
        )
    safetensors.write(aside / WEIGHTS, tensors)
    said = _write_vocabulary(
      aside / VOCABULARY, vocabulary, model, converter, ids
    )
    manifest = {
      "transformer_zoo": transformer_zoo.__version__,
      "jax": jax.__version__,
      "platforms": list(platforms),
      "architecture": type(model).__name__,
      "writes": model.offers.writes,
      "lengths": dict(lengths),
      "ids": _special_ids(vocabulary, converter, ids),
      "around": _around(vocabulary, converter, ids),
      **_of_answers(converter, decoding, scorer, class_names),
      "programs": described,
      "weights": {"file": WEIGHTS, "names": list(leaves)},
    }
    (aside / MANIFEST).write_text(
      json.dumps(manifest, indent=2, ensure_ascii=False) + "\n",
      encoding="utf-8",
    )
  if said:
    report(f"{folder}: {said}")
  number = sum(leaf.size for leaf in leaves.values())
  report(
    f"{folder}: {' and '.join(programs)} for {', '.join(platforms)}, "
    f"{number:,} parameters"
  )


def with_reference_kernels(model: nn.Module) -> nn.Module:
  """Returns a model whose attention is computed by the reference kernel.

  Others are chosen by the size of a batch or run on one platform alone.

  Raises:
    UserError: The model attends to summaries of tokens.
  """

  def rule(name: str, part: nn.Module) -> nn.Module:
    del name
    if getattr(part, "summaries", None) is not None:
      raise UserError(
        "attention to sums of blocks (Attention.summaries) is computed for "
        "batches of a known size, and an exported program serves any; use a "
        "checkpoint or a Hugging Face directory of the model"
      )
    kernel = getattr(part, "kernel", None)
    if isinstance(kernel, KernelChoice):
      return part.clone(kernel=REFERENCE)
    return part

  return substitution.rebuilt(model, rule)


def text_programs(
  model: nn.Module,
  converter: converters.Converter,
  lengths: Mapping[str, int],
  decoding: DecodingOptions,
  ids: Mapping[str, int],
) -> dict[str, _Program]:
  """Returns the programs of a model that writes: `generate` and `score`.

  Args:
    model: The architecture.
    converter: The layout of a batch.
    lengths: The largest number of tokens of each feature.
    decoding: The options of the search.
    ids: The arguments `start_id`, `eos_id` and `pad_id` of `generate`.

  Raises:
    UserError: The model has no positions for inputs beside its outputs.
  """
  decoding = decoding.with_length(lengths["targets"])
  widths = Widths.of_model(
    model, converters.with_room(converter, lengths), decoding
  )
  prompt = prompts.length_of(converter)
  longest = min(widths.lengths["inputs"], widths.room - prompt)
  if longest < 1:
    raise UserError(
      f"outputs of up to {decoding.max_length} tokens leave no position for "
      f"their inputs: the model has {widths.positions['inputs']}; choose a "
      "smaller DecodingOptions.max_length or TASK_FEATURE_LENGTHS"
    )
  sums = scoring.make_example_sums(model, decoding)

  def generated(params, arrays: Arrays) -> dict[str, jax.Array]:
    inputs_BM, lengths_B = _read(
      converter, ids["pad_id"], arrays["inputs"], arrays["input_lengths"]
    )
    outputs = generate(
      model,
      params,
      inputs_BM,
      decoding.max_length,
      arrays.get("example_ids"),
      options=decoding,
      lengths_B=lengths_B,
      **ids,
    )
    return {
      "tokens": outputs.tokens,
      "scores": outputs.scores,
      "log_likelihoods": outputs.log_likelihoods,
    }

  def scored(params, arrays: Arrays) -> dict[str, jax.Array]:
    batch = laid_out(
      converters.with_inputs(converter),
      ids["pad_id"],
      arrays["inputs"],
      arrays["input_lengths"],
      arrays["targets"],
      arrays["target_lengths"],
    )
    found = sums(params, batch)
    return {
      "log_likelihood": -found["loss_sum"],
      "target_tokens": found["weight_sum"].astype(jnp.int32),
    }

  texts = {"inputs": "bl", "input_lengths": "b"}
  numbers = {"example_ids": "b"} if decoding.sampled else {}
  lengths = {"l": widths.lengths["inputs"], "t": widths.lengths["targets"]}
  room = widths.positions["targets"] + widths.unread - prompt
  is_short = widths.one_sequence and room < sum(lengths.values())
  return {
    "generate": _Program(generated, texts | numbers, {"l": int(longest)}),
    "score": _Program(
      scored,
      texts | {"targets": "bt", "target_lengths": "b"},
      {
        "l": int(min(lengths["l"], widths.positions["inputs"] - prompt)),
        "t": int(min(lengths["t"], widths.positions["targets"])),
      },
      int(room) if is_short else None,
    ),
  }


def _of_head(
  model: nn.Module,
  converter: converters.Encoder,
  lengths: Mapping[str, int],
  scorer: Callable[..., Any] | None,
) -> dict[str, _Program]:
  """Returns the program of an encoder: `logits`."""
  head = scoring.head_of(converter, scorer)

  def logits(params, arrays: Arrays) -> dict[str, jax.Array]:
    made = scoring.head_logits(model, converter, head, params, arrays)
    return {"logits": made}

  longest = min(
    lengths["inputs"], model.offers.num_positions("encoder") or np.inf
  )
  shapes = converter.shapes(lengths, 1, packing=False)
  features = {
    name: "bl"[: len(shape)]
    for name, shape in shapes.items()
    if name not in _OF_LOSSES
  }
  return {"logits": _Program(logits, features, {"l": int(longest)})}


def laid_out(
  converter: converters.EncoderDecoder | converters.PrefixLanguageModel,
  pad_id: int,
  inputs_BM: jax.Array,
  lengths_B: jax.Array,
  targets_BL: jax.Array,
  target_lengths_B: jax.Array,
) -> dict[str, jax.Array]:
  """Lays padded texts out as a converter does with ragged ones.

  Args:
    converter: The converter.
    pad_id: The padding id of the vocabulary.
    inputs_BM: The ids of the inputs.
    lengths_B: The number of ids of each input; those behind are padding.
    targets_BL: The ids of the targets.
    target_lengths_B: The number of ids of each target.

  Returns:
    The features of a batch, a row for each pair.
  """
  inputs_BM, lengths_B = _read(converter, pad_id, inputs_BM, lengths_B)
  targets_BL = _padded(targets_BL, target_lengths_B, pad_id)
  start = converters.start_id(converter, pad_id)
  if isinstance(converter, converters.EncoderDecoder):
    places_1L = jnp.arange(targets_BL.shape[1])[None]
    return {
      "encoder_input_tokens": inputs_BM,
      "decoder_input_tokens": _shifted(targets_BL, start),
      "decoder_target_tokens": targets_BL,
      "decoder_loss_weights": places_1L < target_lengths_B[:, None],
    }
  # T places of both, M of the inputs.
  both_BT = jnp.concatenate([inputs_BM, targets_BL], axis=1)
  places_1T = jnp.arange(both_BT.shape[1])[None]
  prefix_B1 = lengths_B[:, None]
  is_text_BT = places_1T < prefix_B1 + target_lengths_B[:, None]
  is_input_BT = places_1T < prefix_B1
  # Targets follow the last token of their inputs.
  behind = inputs_BM.shape[1] - prefix_B1
  taken_BT = places_1T + jnp.where(is_input_BT, 0, behind)
  row_BT = jnp.take_along_axis(both_BT, taken_BT, axis=1, mode="clip")
  row_BT = jnp.where(is_text_BT, row_BT, pad_id)
  is_prompt_BT = row_BT >= prompts.FIRST_ID
  weights_BT = is_text_BT & ~is_prompt_BT
  if converter.loss_on_targets_only:
    weights_BT &= ~is_input_BT
  return {
    "decoder_input_tokens": _shifted(row_BT, start),
    # A loss looks no id up beyond its logits, whatever the weight.
    "decoder_target_tokens": jnp.where(is_prompt_BT, pad_id, row_BT),
    "decoder_loss_weights": weights_BT,
    "decoder_causal_attention": is_text_BT & (places_1T <= prefix_B1),
  }


def _read(
  converter: converters.Converter,
  pad_id: int,
  inputs_BM: jax.Array,
  lengths_B: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """Returns inputs behind the prompt that a model has, and their lengths."""
  inputs_BM = _padded(inputs_BM, lengths_B, pad_id)
  number = prompts.length_of(converter)
  if not number:
    return inputs_BM, lengths_B
  places_1P = prompts.FIRST_ID + jnp.arange(number, dtype=jnp.int32)[None]
  places_BP = jnp.broadcast_to(places_1P, (inputs_BM.shape[0], number))
  return jnp.concatenate([places_BP, inputs_BM], axis=1), lengths_B + number


def _padded(ids_BL: jax.Array, lengths_B: jax.Array, pad_id: int) -> jax.Array:
  """Returns ids of which those behind the lengths are padding."""
  is_text_BL = jnp.arange(ids_BL.shape[1])[None] < lengths_B[:, None]
  return jnp.where(is_text_BL, ids_BL, pad_id)


def _shifted(targets_BL: jax.Array, start_id: int) -> jax.Array:
  """Returns what a decoder reads: the targets, one later."""
  return jnp.pad(targets_BL, ((0, 0), (1, 0)), constant_values=start_id)[:, :-1]


def _exported(
  program: _Program,
  weights: Mapping[str, jax.ShapeDtypeStruct],
  platforms: Sequence[str],
) -> tuple[export.Exported, bool]:
  """Returns a program, and whether the length of its rows is left open."""

  def call(weights: Arrays, arrays: Arrays) -> dict[str, jax.Array]:
    params = traverse_util.unflatten_dict(weights, sep="/")
    return program.function(params, arrays)

  # All arguments stay, so that they have the manifest's order.
  traced = export.export(jax.jit(call, keep_unused=True), platforms=platforms)

  def with_sizes(is_open: bool) -> export.Exported:
    sizes = program.sizes(is_open)
    arrays = {
      name: jax.ShapeDtypeStruct([sizes[s] for s in symbols], jnp.int32)
      for name, symbols in program.inputs.items()
    }
    return traced(dict(weights), arrays)

  try:
    return with_sizes(is_open=True), True
  except UserError:
    raise
  except Exception:  # A part that asks for a number may raise anything.
    return with_sizes(is_open=False), False


def _described(
  file: str, program: _Program, exported: export.Exported
) -> dict[str, Any]:
  """What the manifest says of a program."""
  _, arrays = jax.tree.unflatten(exported.in_tree, exported.in_avals)[0]
  outputs = jax.tree.unflatten(exported.out_tree, exported.out_avals)
  most = program.most_tokens
  return {
    "file": file,
    "inputs": _shapes(arrays),
    "outputs": _shapes(outputs),
    "longest": dict(program.longest),
    **({} if most is None else {"most_tokens": most}),
  }


def _shapes(arrays: Mapping[str, Any]) -> dict[str, Any]:
  return {
    name: {
      "shape": [n if isinstance(n, int) else str(n) for n in array.shape],
      "dtype": array.dtype.name,
    }
    for name, array in sorted(arrays.items())
  }


def _special_ids(
  vocabulary: Vocabulary,
  converter: converters.Converter,
  ids: Mapping[str, int],
) -> dict[str, int]:
  """The special ids that a client needs, by name."""
  found = {"pad": ids["pad_id"], "mask": vocabulary.mask_id}
  if converter.writes:
    found |= {"start": ids["start_id"], "eos": ids["eos_id"]}
  return {
    name: number
    for name, number in found.items()
    if number not in (None, scoring.NO_END)
  }


def _around(
  vocabulary: Vocabulary,
  converter: converters.Converter,
  ids: Mapping[str, int],
) -> dict[str, Any]:
  """The ids before, between and behind the pieces of texts."""
  if not converter.writes:
    frame = forms.Frame.of(
      vocabulary, converter.separators, converter.cls_place,
      converter.first_new_id,
    )  # fmt: skip
    return {"inputs": dataclasses.asdict(frame)}
  begin = [] if converter.begin_id is None else [converter.begin_id]
  eos = [] if ids["eos_id"] == scoring.NO_END else [ids["eos_id"]]
  end = [] if converters.continues(converter) else eos
  last = [] if converter.end_id is None else [converter.end_id]
  return {
    "inputs": {"begin": begin, "end": [*end, *last]},
    "targets": {"begin": begin, "end": eos},
  }


def _of_answers(
  converter: converters.Converter,
  decoding: DecodingOptions,
  scorer: Callable[..., Any] | None,
  class_names: Sequence[str],
) -> dict[str, Any]:
  """What the manifest says of outputs."""
  if converter.writes:
    usual = dataclasses.asdict(GREEDY)
    options = dataclasses.asdict(decoding)
    changed = {n: v for n, v in options.items() if v != usual[n]}
    return {"decoding": changed}
  return {
    "form": converter.form,
    "head": scoring.head_of(converter, scorer),
    "classes": list(class_names),
  }


def _write_vocabulary(
  folder: pathlib.Path,
  vocabulary: Vocabulary,
  model: nn.Module,
  converter: converters.Converter,
  ids: Mapping[str, int],
) -> str:
  """Writes the files of the tokenizer; returns a sentence on it, or ""."""
  path = pathlib.Path(vocabulary.path)
  if path.is_dir():
    for file in tokenizer_files.of_directory(path):
      (folder / file.name).write_bytes(file.read_bytes())
    return ""
  continues = model.offers.continues
  said = tokenizer_files.write(
    vocabulary,
    folder,
    first_fed=ids["start_id"] if continues else None,
    begin_id=converter.begin_id,
    end_id=converter.end_id,
    of_encoder=not model.offers.has_decoder,
  )
  # The program itself feeds a language model what begins a prompt.
  return "" if continues else said


def _tensor(leaf: jax.Array) -> Tensor:
  return Tensor(
    leaf.shape, np.dtype(leaf.dtype), lambda: np.asarray(jax.device_get(leaf))
  )
