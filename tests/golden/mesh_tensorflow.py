"""Variants that are compared with Mesh TensorFlow, and on what.

They are modifications of T5 that Narang et al. 2021 compare.
tests/oracles/mesh_tensorflow/record.py records what it computes,
tests/architectures/mesh_tensorflow_golden_test.py compares ours with it, and
tests/oracles/mesh_tensorflow/mesh_tensorflow_test.py computes it anew.
"""

import pathlib

import jax
import numpy as np

from tests import tiny_models
from tests.golden import variants
from tests.golden.variants import Variant
from transformer_zoo.corruption.ragged import Ragged

FOLDER = pathlib.Path(__file__).parent / "mesh_tensorflow"
LAYER_NORM = ("LayerNorm.epsilon=1e-6",)
VARIANTS = {
  "vanilla": Variant("t5_1_0"),
  "elu": Variant("t5_1_0", ("feed_forward/elu",)),
  "selu": Variant("t5_1_0", ("feed_forward/selu",)),
  "sigmoid": Variant("t5_1_0", ("feed_forward/sigmoid",)),
  "softplus": Variant("t5_1_0", ("feed_forward/softplus",)),
  "layer_norm": Variant(
    "t5_1_0", ("normalization/layer_norm",), bindings=LAYER_NORM
  ),
  "rezero": Variant("t5_1_0", ("connections/rezero",)),
  "rezero_pre_norm": Variant("t5_1_0", ("connections/rezero_pre_norm",)),
  "fixup": Variant("t5_1_0", ("connections/fixup",)),
  **{
    part + balanced: Variant(
      "t5_1_0", (f"feed_forward/{part}",), bindings=(f"{router}={factor}",)
    )
    for part, router in (
      ("switch", "SwitchRouter.load_balancing"),
      ("mixture_of_experts", "TopTwoRouter.load_balancing"),
    )
    for balanced, factor in (("", 0.0), ("_balanced", 10.0))
  },
  "product_keys": Variant(
    "t5_1_0", ("feed_forward/product_keys",), {"MEMORY_LAYERS": (0, 1)}
  ),
  "untied_softmax": Variant("t5_1_0", ("softmax/untied",)),
  "own_tables": Variant("t5_1_0", ("embeddings/own_tables",)),
  "untied": Variant("t5_1_0", ("embeddings/own_tables", "softmax/untied")),
  "factorized": Variant(
    "t5_1_0", ("softmax/factorized",), {"FACTORIZED_DIM": 10}
  ),
  "factorized_untied": Variant(
    "t5_1_0", ("softmax/factorized_untied",), {"FACTORIZED_DIM": 10}
  ),
  "adaptive_inputs": Variant(
    "t5_1_0", ("embeddings/adaptive",), {"CLUSTER_DIMS": (None, 8, 4)}
  ),
  "adaptive_softmax": Variant(
    "t5_1_0", ("softmax/adaptive",), {"CLUSTER_DIMS": (None, 8, 4, 4)}
  ),
  "adaptive_softmax_without_projection": Variant(
    "t5_1_0", ("softmax/adaptive_without_projection",)
  ),
  "mixture": Variant("t5_1_0", ("softmax/mixture",), {"NUM_SOFTMAXES": 3}),
  **{
    part: Variant("t5_1_0", (f"attention/{part}",))
    for part in (
      "synthesizer_dense",
      "synthesizer_dense_plus",
      "synthesizer_dense_plus_alpha",
      "synthesizer_factorized",
      "synthesizer_random",
      "synthesizer_random_plus",
      "synthesizer_random_plus_alpha",
      "talking_heads",
    )
  },
  **{
    part: Variant("t5_1_0", (f"layers/{part}",))
    for part in (
      "lightweight_convolution",
      "dynamic_convolution",
      "weighted",
      "evolved",
    )
  },
  "transparent_attention": Variant("t5_1_0", ("stacks/transparent_attention",)),
  "funnel": Variant("t5_1_0", ("stacks/funnel",), {"NUM_ENCODER_LAYERS": 3}),
  "universal": Variant(
    "t5_1_0",
    ("normalization/layer_norm", "stacks/universal"),
    {"PONDER_WEIGHT": 0.0},
    LAYER_NORM,
  ),
}
# One modification of each kind.
ONE_OF_EACH_KIND = (
  *("vanilla", "rezero", "product_keys", "factorized", "adaptive_softmax"),
  *("switch_balanced", "mixture_of_experts_balanced", "mixture"),
  *("synthesizer_dense_plus_alpha", "talking_heads", "dynamic_convolution"),
  *("transparent_attention", "funnel"),
)
# Rows whose padding the original counts elsewhere: in balancing losses, and in
# a mean of states in which a text ends.
LENGTHS = {
  "switch_balanced": (28, 28, 28),
  "mixture_of_experts_balanced": (28, 28, 28),
  "funnel": (12, 28, 20),
  # With the others' lengths a gradient cancels to what rounding leaves of it.
  "product_keys": (12, 28, 20),
}


def path(name: str) -> pathlib.Path:
  """tests/golden/mesh_tensorflow/<name>.npz."""
  return FOLDER / f"{name}.npz"


def setting(name: str):
  """Returns model, weights, batch; nothing of them is recorded."""
  model, converter = VARIANTS[name].build()
  lengths = LENGTHS.get(name)
  examples = variants.examples() if lengths is None else _examples(lengths)
  batch = tiny_models.lay_out(converter, examples, packing=False, width=28)
  params = jax.tree.map_with_path(_scaled, tiny_models.random_parameters(model))
  return model, params, batch


def _scaled(path, value):
  """Where larger numbers would amplify rounding, or saturate."""
  if not value.ndim:
    return 0.3 * value
  if path[-1].key == "step_embedding":
    return value.shape[-1] ** -0.5 * value
  return value


def _examples(lengths):
  """Inputs and targets of these lengths."""
  random = np.random.RandomState(0)

  def side():
    return Ragged.of([random.randint(3, 48, length) for length in lengths])

  return {"inputs": side(), "targets": side()}
