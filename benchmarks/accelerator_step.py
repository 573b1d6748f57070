"""T5.1.1's pre-training step on what is here, for accelerator.py.

One JSON argument; `{}` asks what hardware this is, and one with `errors` how
exactly a kernel computes. Needs jax, flax and optax.
"""

import json
import statistics
import sys
import time
import types

from flax import linen as nn
import jax
import jax.numpy as jnp
from workloads import random_batches

try:
  import gin  # noqa: F401
except ImportError:
  # The parts of the core only register themselves with it.
  gin = types.ModuleType("gin")
  gin.register = lambda part=None, **_: part or (lambda part: part)
  gin.external_configurable = lambda part, *_, **__: part
  sys.modules["gin"] = gin

from transformer_zoo.architectures.encoder_decoder import Decoder
from transformer_zoo.architectures.encoder_decoder import EncoderDecoder
from transformer_zoo.architectures.transformer import Transformer
from transformer_zoo.forecast import hardware
from transformer_zoo.modules import initializers
from transformer_zoo.modules.attention.attention import Attention
from transformer_zoo.modules.attention.attention import AutomaticAttention
from transformer_zoo.modules.attention.chunked import ChunkedAttention
from transformer_zoo.modules.attention.dot_product import ReferenceAttention
from transformer_zoo.modules.attention.fused import FusedAttention
from transformer_zoo.modules.attention.kernels import CudnnAttention
from transformer_zoo.modules.attention.kernels import XlaAttention
from transformer_zoo.modules.embedding import Embed
from transformer_zoo.modules.feed_forward import GatedMlp
from transformer_zoo.modules.heads import LinearLogits
from transformer_zoo.modules.layers import DecoderLayer
from transformer_zoo.modules.layers import EncoderLayer
from transformer_zoo.modules.linear import Linear
from transformer_zoo.modules.positions.relative_bias import RelativePositionBias
from transformer_zoo.modules.stack import Stack
from transformer_zoo.objectives import terms
from transformer_zoo.objectives.sequence_to_sequence import SequenceToSequence
from transformer_zoo.training import state as state_lib
from transformer_zoo.training.optimizers import schedules
from transformer_zoo.training.optimizers.adafactor import adafactor
from transformer_zoo.training.program import TrainProgram
from transformer_zoo.training.sharding import partitioning

KERNELS = {
  "automatic": AutomaticAttention,
  "reference": ReferenceAttention,
  "xla": XlaAttention,
  "cudnn": CudnnAttention,
  "chunked": ChunkedAttention,
  "fused": FusedAttention,
}
_MATRIX = 8192  # Of the product that tells an unknown device's peak.
_BLOCKS = 3


def t5_1_1(
  *,
  vocab_size: int,
  d_model: int,
  d_ff: int,
  num_heads: int,
  head_dim: int,
  num_layers: int,
  dtype: str = "bfloat16",
  kernel: str = "automatic",
  remat: str = "none",
  scan: bool = False,
) -> EncoderDecoder:
  """The model of `architectures/t5_1_1.gin`, by constructors."""

  def attention():
    query = Linear(
      kernel_axes=("embed", "joined_kv"),
      kernel_init=initializers.attention_query(head_dim),
    )
    return Attention(
      num_heads=num_heads,
      head_dim=head_dim,
      query=query,
      kernel=KERNELS[kernel](),
    )

  def transformer(layer, name, bidirectional):
    return Transformer(
      Stack(layer, num_layers, scan=scan, remat=remat),
      position_bias=RelativePositionBias(num_heads, bidirectional),
      norm_name=name,
    )

  encoder = EncoderLayer(attention=attention(), mlp=GatedMlp(d_ff))
  decoder = DecoderLayer(
    self_attention=attention(),
    mlp=GatedMlp(d_ff),
    encoder_decoder_attention=attention(),
  )
  return EncoderDecoder(
    token_embedder=Embed(vocab_size, d_model, dtype),
    encoder=transformer(encoder, "encoder_norm", True),
    decoder=Decoder(
      transformer(decoder, "decoder_norm", False), LinearLogits()
    ),
  )


def measure(work: dict) -> dict:
  """Speed of a configuration.

  Args:
    work: `model`, the arguments of `t5_1_1`; `batch_size` rows on each device;
      `inputs`, `targets`, `steps`, `warmup`.
  """
  model = t5_1_1(**work["model"])
  layout, schedule = partitioning.Partitioning(), schedules.rsqrt()
  mesh = layout.mesh()
  program = TrainProgram(
    model, SequenceToSequence(), adafactor(schedule), schedule, layout, mesh
  )
  rows = work["batch_size"] * mesh.size
  with layout.activate(mesh):
    state = program.initial_state(jax.random.key(0))
    batch = partitioning.put_batch(
      random_batches.packed(
        rows, work["inputs"], work["targets"], work["model"]["vocab_size"]
      ),
      mesh,
    )
    key = jax.random.key(1)
    start = time.perf_counter()
    step = program.step.lower(state, batch, key).compile()
    compile_seconds = time.perf_counter() - start

    def steps(number):
      nonlocal state
      start = time.perf_counter()
      for _ in range(number):
        state, sums = step(state, batch, key)
      jax.block_until_ready((state, sums))
      return (time.perf_counter() - start) / number

    steps(work["warmup"])
    seconds = statistics.median(steps(work["steps"]) for _ in range(_BLOCKS))
    flops = program.model_flops(batch)
  peak, source = peak_flops()
  return {
    "seconds_per_step": seconds,
    "tokens_per_second": rows * (work["inputs"] + work["targets"]) / seconds,
    "model_flops": flops,
    "utilisation": flops / seconds / (peak * mesh.size),
    "peak_flops": peak,
    "peak_source": source,
    "compile_seconds": compile_seconds,
    "temporary_bytes": step.memory_analysis().temp_size_in_bytes,
  }


def errors(work: dict) -> dict:
  """Errors of a kernel's loss and gradients, beside the reference's.

  Both compute in the model's `dtype` and are compared with the reference in
  float32 on the same parameters and rows, of which each is packed with two
  examples.

  Args:
    work: `model`, the arguments of `t5_1_1`; `errors`, the number of rows;
      `inputs`, `targets`.

  Returns:
    By "kernel" and "reference": the error of the loss, and the largest one of a
    parameter's gradient, as a share of its norm.
  """
  asked = work["model"]
  exact = t5_1_1(**asked | {"kernel": "reference", "dtype": "float32"})
  layout = partitioning.Partitioning()
  mesh = layout.mesh()
  rows = -(-work["errors"] // mesh.size) * mesh.size
  batch = random_batches.packed(
    rows, work["inputs"], work["targets"], asked["vocab_size"]
  )
  for side in ("encoder", "decoder"):
    ids_BL, positions_BL = (
      batch[f"{side}_{name}"] for name in ("segment_ids", "positions")
    )
    half = ids_BL.shape[1] // 2
    ids_BL[:, half:] = 2
    positions_BL[:, half:] -= half

  def gradient(model):
    def loss(params, batch):
      return terms.loss(SequenceToSequence()(model, params, batch))

    return jax.jit(jax.value_and_grad(loss))(params, batch)

  def beside(found):
    (value, slopes), (true_value, true_slopes) = found, truth
    shares = jax.tree.map(
      lambda a, b: jnp.linalg.norm(a - b) / jnp.linalg.norm(b),
      slopes,
      true_slopes,
    )
    return {
      "loss": abs(float(value - true_value)),
      "gradients": float(max(jax.tree.leaves(shares))),
    }

  with layout.activate(mesh), jax.default_matmul_precision("highest"):
    batch = partitioning.put_batch(batch, mesh)
    variables = state_lib.initial_variables(exact, jax.random.key(0))
    params = nn.meta.unbox(variables)
    truth = gradient(exact)
    return {
      "kernel": beside(gradient(t5_1_1(**asked))),
      "reference": beside(gradient(t5_1_1(**asked | {"kernel": "reference"}))),
    }


def peak_flops() -> tuple[float, str]:
  """bfloat16 FLOP/s of a device, and who says so."""
  device = jax.devices()[0]
  chip = hardware.chip_of(device.device_kind)
  if chip is not None:
    return chip.peak_flops, "data sheet"
  size = _MATRIX if device.platform != "cpu" else _MATRIX // 16
  matrix = jnp.ones((size, size), jnp.bfloat16)
  multiply = jax.jit(jnp.matmul)
  best = float("inf")
  for _ in range(10):
    start = time.perf_counter()
    multiply(matrix, matrix).block_until_ready()
    best = min(best, time.perf_counter() - start)
  return 2 * size**3 / best, f"the best product of {size} x {size} matrices"


def describe() -> dict:
  """The devices, as JAX sees them."""
  device = jax.devices()[0]
  return {
    "platform": device.platform,
    "device_kind": device.device_kind,
    "devices": jax.device_count(),
    "device_bytes": (device.memory_stats() or {}).get("bytes_limit"),
  }


if __name__ == "__main__":
  asked = json.loads(sys.argv[1])
  if "errors" in asked:
    found = errors(asked)
  else:
    found = measure(asked) if asked else describe()
  # Kernels tell which they are, before it.
  print("\n" + json.dumps(found))
