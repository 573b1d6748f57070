"""Models that are compared with independent implementations, and on what.

Two kinds: those of which PyTorch's `transformers` has no class, whose
reference is oracles/pytorch/reference_transformer.py; and classes of it that
are our language model with other parts, so that each part is seen in a whole
model. tests/oracles/pytorch/record_variants.py records what they compute,
tests/architectures/variants_golden_test.py compares ours with it, and
tests/oracles/pytorch/variants_test.py computes it anew.
"""

import dataclasses
import functools
import pathlib
import zlib

from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import programs
from tests import tiny_models
from tests import tiny_t5
from tests.golden import t5
from transformer_zoo.objectives import terms

LOGITS_TOLERANCE = 2e-5
LOSS_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 1e-4
FOLDER = pathlib.Path(__file__).parent / "variants"


@dataclasses.dataclass(frozen=True)
class Variant:
  """Gin files and what is bound after them."""

  architecture: str
  parts: tuple[str, ...] = ()
  sizes: dict[str, int] = dataclasses.field(default_factory=dict)
  bindings: tuple[str, ...] = ()

  def build(self):
    """Returns (model, converter)."""
    return tiny_models.build(
      self.architecture,
      *(f"{part}.gin" for part in self.parts),
      bindings=self.bindings,
      **self.sizes,
    )


# Heads as wide as the model, and no power of two of them.
SQUARE = {"NUM_HEADS": 6, "HEAD_DIM": 4, "MLP_DIM": 96}
ADAPTERS = "../peft/adapters"
UNSCALED = "TiedLogits.scale_by_depth=False"
WITHOUT_CLASS = {
  "shared": Variant("shared"),
  "lm": Variant("lm"),
  "prefix_lm": Variant("prefix_lm"),
  "llama_encoder_decoder": Variant(
    "llama_encoder_decoder", sizes={"NUM_KV_HEADS": 2}
  ),
  "lm_shaw": Variant("lm", ("positions/shaw",)),
  "lm_music_transformer": Variant("lm", ("positions/music_transformer",)),
  "lm_annotated": Variant("lm", ("normalization/annotated",)),
  "lm_factorized": Variant(
    "lm", ("softmax/factorized",), {"FACTORIZED_DIM": 10}
  ),
  "lm_value_residual": Variant("lm", ("attention/value_residual",)),
  "lm_hyper_connections": Variant("lm", ("connections/hyper_connections",)),
  "lm_hyper_connections_static": Variant(
    "lm", ("connections/hyper_connections_static",)
  ),
  "shared_adapters": Variant("shared", (ADAPTERS,), {"ADAPTER_DIM": 10}),
  "llama_encoder_decoder_adapters": Variant(
    "llama_encoder_decoder",
    (ADAPTERS,),
    {"NUM_KV_HEADS": 2, "ADAPTER_DIM": 10},
  ),
}
WITH_CLASS = {
  # ALiBi, GELU by its tanh form, LayerNorm before the layers.
  "bloom": Variant("bloom", (), SQUARE, ()),
  # ALiBi, exact GELU, LayerNorm without a shift.
  "mpt": Variant(
    "lm",
    (
      "positions/alibi",
      "normalization/layer_norm_without_bias",
      "attention/scaled",
      "feed_forward/gelu_exact",
    ),
    SQUARE,
    (UNSCALED,),
  ),
  # Parallel, interleaved rotary positions of some features.
  "gpt_j": Variant(
    "lm",
    (
      "positions/rotary_interleaved",
      "normalization/layer_norm",
      "connections/parallel",
      "attention/scaled",
      "feed_forward/gelu",
      "softmax/untied",
    ),
    {"NUM_HEADS": 3, "HEAD_DIM": 8, "MLP_DIM": 40},
    (
      "Rotary.rotated=6",
      "wi/Linear.use_bias=True",
      "wo/Linear.use_bias=True",
      "LinearLogits.logits_dense=@logits/Linear()",
      "logits/Linear.kernel_axes=('embed', 'vocab')",
      "logits/Linear.use_bias=True",
    ),
  ),
  # Parallel with two norms, rotary positions of some features by halves.
  "gpt_neox": Variant(
    "lm",
    (
      "positions/rotary",
      "normalization/layer_norm",
      "connections/parallel_norms",
      "attention/scaled",
      "feed_forward/gelu_exact",
      "softmax/untied",
    ),
    {"NUM_HEADS": 3, "HEAD_DIM": 8, "MLP_DIM": 40},
    ("Rotary.rotated=2", "Linear.use_bias=True"),
  ),
  # Parallel, multi-query.
  "falcon": Variant(
    "lm",
    (
      "positions/rotary",
      "normalization/layer_norm",
      "connections/parallel",
      "attention/scaled",
      "attention/grouped_query",
      "feed_forward/gelu_exact",
    ),
    SQUARE,
    (UNSCALED,),
  ),
  # Parallel, grouped queries, interleaved, LayerNorm without a shift, tied.
  "cohere": Variant(
    "llama",
    (
      "positions/rotary_interleaved",
      "normalization/layer_norm_without_bias",
      "connections/parallel",
      "softmax/tied",
    ),
    {"NUM_HEADS": 6, "NUM_KV_HEADS": 3, "HEAD_DIM": 4},
  ),
}  # fmt: skip
VARIANTS = WITHOUT_CLASS | WITH_CLASS


def path(name: str) -> pathlib.Path:
  """tests/golden/variants/<name>.npz."""
  return FOLDER / f"{name}.npz"


def examples():
  """Inputs and targets of 3 examples."""
  return tiny_models.random_examples(number=3, longest=24)


def setting(name: str, *, packing: bool = False):
  """Returns model, weights, batch; nothing of them is recorded."""
  model, converter = VARIANTS[name].build()
  width = 75 if packing else 28
  batch = tiny_models.lay_out(
    converter, examples(), packing=packing, width=width
  )
  return model, tiny_models.random_parameters(model), batch


def outputs(
  model, params, batch, *, gradient=True, with_costs=False
) -> dict[str, np.ndarray]:
  """Logits at the tokens, the summed loss, its gradient by parameter.

  The loss is the sum over tokens, with the terms of costs that parts add if
  that is asked for.
  """
  total = _loss_with_costs if with_costs else _loss
  value, logits, slopes = computed(total, model, params, batch, gradient)
  real = batch["decoder_target_tokens"] != model.pad_id
  return {"logits": np.asarray(logits)[real], "loss": value, **slopes}


outputs_with_costs = functools.partial(outputs, with_costs=True)


def _loss(params, model, batch):
  logits = model.apply({"params": params}, batch, method="all_logits")
  return _of_tokens(logits["tokens"], batch)


def _loss_with_costs(params, model, batch):
  logits, costs = terms.with_costs(
    model.apply, {"params": params}, batch, method="all_logits"
  )
  total, logits_BLV = _of_tokens(logits["tokens"], batch)
  return total + terms.loss(costs), logits_BLV


def _of_tokens(logits_BLV, batch):
  likelihoods_BLV = jax.nn.log_softmax(logits_BLV)
  chosen_BL1 = jnp.take_along_axis(
    likelihoods_BLV, batch["decoder_target_tokens"][..., None], axis=-1
  )
  weights_BL = batch["decoder_loss_weights"]
  return -jnp.sum(chosen_BL1[..., 0] * weights_BL), logits_BLV


def computed(total, model, params, batch, gradient: bool):
  """(value, further outputs, `gradient_entries` if asked) of one program.

  Args:
    total: (params, model, batch) -> (value, further outputs), a function that
      outlives the call.
    model: A model; equal ones share the program.
    params: Its parameters.
    batch: Its batch.
    gradient: Whether the gradient of the value is computed.
  """
  if not gradient:
    value, found = programs.run(total, params, model, batch)
    return np.asarray(value), found, {}
  (value, found), slopes = programs.run(
    _with_gradient, total, params, model, batch
  )
  flat = traverse_util.flatten_dict(slopes, sep="/")
  return np.asarray(value), found, gradient_entries(flat)


def _with_gradient(total, params, *fixed):
  return jax.value_and_grad(total, has_aux=True)(params, *fixed)


def cases(names, central):
  """(name, gradient): outputs of central names, all with gradients slowly."""
  return [(name, False) for name in central] + [
    pytest.param(name, True, marks=pytest.mark.slow) for name in names
  ]


def of_scanned(outputs, *, gradient: bool):
  """`outputs` of the model with scanned layers, by the names of looped ones.

  They are compiled once, and not once a layer.
  """

  def compute(model, params, batch):
    scanned = tiny_models.scanned(model)
    if scanned != model:
      params = tiny_models.stack_layers(params)
    entries = {}
    for name, value in outputs(
      scanned, params, batch, gradient=gradient
    ).items():
      if "/layers/" in name:
        for i, own in enumerate(value):
          entries[name.replace("/layers/", f"/layers_{i}/")] = own
      else:
        entries[name] = value
    return entries

  return compute


def gradient_entries(gradient) -> dict[str, np.ndarray]:
  """gradient/<parameter> -> array."""
  return {f"gradient/{k}": np.asarray(v) for k, v in gradient.items()}


def digest(entry: str, value: np.ndarray) -> np.ndarray:
  """What is recorded of a gradient, three numbers.

  Its products with two vectors of random signs, and its length.
  """
  flat = value.reshape(-1).astype(np.float64)
  random = np.random.RandomState(zlib.crc32(entry.encode()))
  signs = random.choice([-1.0, 1.0], (2, flat.size))
  return np.append(signs @ flat, np.linalg.norm(flat))


def record(golden_path: pathlib.Path, params, batch, outputs) -> None:
  """Writes outputs, digested, for `assert_recorded`."""
  gradients = sorted(k for k in outputs if k.startswith("gradient/"))
  np.savez_compressed(
    golden_path,
    checksum=t5.checksum(params, batch),
    logits=outputs["logits"],
    loss=outputs["loss"],
    gradients=np.stack([digest(k, outputs[k]) for k in gradients]),
  )


def assert_recorded(golden_path: pathlib.Path, params, batch, found) -> None:
  """Checks that outputs are those that are recorded in a file.

  Args:
    golden_path: The file that `record` has written.
    params: The weights that the outputs are of.
    batch: The batch that they are of.
    found: Logits and loss, and the gradient if it was computed.
  """
  golden = np.load(golden_path)
  assert t5.checksum(params, batch) == golden["checksum"], (
    "weights or batch differ from what was recorded: record them again"
  )
  gradients = {k: v for k, v in found.items() if k.startswith("gradient/")}
  assert {"logits", "loss", *gradients} == set(found)
  for entry, tolerance in (
    ("logits", LOGITS_TOLERANCE),
    ("loss", LOSS_TOLERANCE),
  ):
    difference = tiny_t5.largest_difference(found[entry], golden[entry])
    assert difference < tolerance, entry
  if not gradients:
    return
  for entry, expected in zip(
    sorted(gradients), golden["gradients"], strict=True
  ):
    if entry.endswith("key/bias"):
      continue  # it cancels in the softmax: its gradient is rounding
    difference = np.abs(digest(entry, gradients[entry]) - expected).max()
    assert difference < GRADIENT_TOLERANCE * expected[-1], entry
