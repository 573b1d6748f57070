"""Variants that are compared with Mesh TensorFlow, and on what.

They are modifications of T5 that Narang et al. 2021 compare.
tests/oracles/mesh_tensorflow/mesh_tensorflow_test.py compares live, and
records what tests/architectures/mesh_tensorflow_golden_test.py compares
without TensorFlow.
"""

import pathlib

import jax

from tests import tiny_models
from tests.golden import variants
from tests.golden.variants import Variant

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
  "switch": Variant("t5_1_0", ("feed_forward/switch",)),
  "mixture_of_experts": Variant("t5_1_0", ("feed_forward/mixture_of_experts",)),
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
}


def path(name: str) -> pathlib.Path:
  """tests/golden/mesh_tensorflow/<name>.npz."""
  return FOLDER / f"{name}.npz"


def setting(name: str):
  """Returns model, weights, batch; nothing of them is recorded."""
  model, converter = VARIANTS[name].build()
  batch = tiny_models.lay_out(
    converter, variants.examples(), packing=False, width=28
  )
  # Without norms larger numbers would amplify rounding from layer to layer.
  params = jax.tree.map(
    lambda value: value if value.ndim else 0.3 * value,
    tiny_models.random_parameters(model),
  )
  return model, params, batch
