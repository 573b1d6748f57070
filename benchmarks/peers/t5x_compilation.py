"""T5X's own training step, compiled ahead for a TPU: for compile_peers.py.

The scanned T5 with T5X's partitioner, rules, trainer step and Adafactor, on
devices of a topology. Takes one JSON argument; needs T5X on the path.
"""

import json
import sys
import time

import jax
from jax.experimental import topologies
import jax.numpy as jnp
import numpy as np
from t5x import adafactor
from t5x import models
from t5x import partitioning
from t5x import trainer
from t5x import utils
from t5x.examples.scalable_t5 import network


class TopologyPartitioner(partitioning.PjitPartitioner):
  """T5X's partitioner with devices that are not there."""

  def __init__(self, devices, num_partitions: int):
    super().__init__(num_partitions=num_partitions)
    self._devices = np.array(devices).reshape(-1, num_partitions)

  @property
  def mesh(self):
    """data x model."""
    return jax.sharding.Mesh(self._devices, ("data", "model"))


def compile_step(work: dict) -> dict:
  """Seconds of tracing and compiling, and bytes per chip."""
  model = models.EncoderDecoderModel(
    network.Transformer(
      network.T5Config(
        vocab_size=32128,
        dtype="bfloat16",
        emb_dim=768,
        num_heads=12,
        num_encoder_layers=12,
        num_decoder_layers=12,
        head_dim=64,
        mlp_dim=2048,
        mlp_activations=("gelu", "linear"),
        dropout_rate=0.0,
        logits_via_embedding=False,
        scan_layers=True,
        remat_policy=work["remat"],
      )
    ),
    input_vocabulary=None,
    output_vocabulary=None,
    optimizer_def=adafactor.Adafactor(
      decay_rate=0.8,
      step_offset=0,
      logical_factor_rules=adafactor.standard_logical_factor_rules(),
    ),
    z_loss=1e-4,
  )
  topology = topologies.get_topology_desc(
    platform="tpu", topology_name=work["topology"]
  )
  partitioner = TopologyPartitioner(topology.devices, work["model"])
  rows = work["batch_size"]
  widths = {
    "encoder": work["inputs"],
    "decoder": work["targets"],
  }
  names = (
    "encoder_input_tokens encoder_segment_ids encoder_positions "
    "decoder_input_tokens decoder_target_tokens decoder_loss_weights "
    "decoder_segment_ids decoder_positions"
  ).split()
  batch = {
    name: jax.ShapeDtypeStruct((rows, widths[name[:7]]), jnp.int32)
    for name in names
  }
  initializer = utils.TrainStateInitializer(
    optimizer_def=model.optimizer_def,
    init_fn=model.get_initial_variables,
    input_shapes={name: x.shape for name, x in batch.items()},
    input_types={name: jnp.int32 for name in batch},
    partitioner=partitioner,
  )
  rate = utils.create_learning_rate_scheduler(
    factors="constant * rsqrt_decay", base_learning_rate=1.0, warmup_steps=10000
  )
  key = jax.eval_shape(lambda: jax.random.PRNGKey(0))

  def step(state, batch, key):
    return trainer.train_with_lr(
      state,
      batch,
      learning_rate=rate(state.step),
      dropout_rng=jax.random.fold_in(key, state.step),
      model=model,
      num_microbatches=None,
    )

  axes = initializer.train_state_axes
  partitioned = partitioner.partition(
    step,
    in_axis_resources=(axes, partitioner.data_partition_spec, None),
    out_axis_resources=(axes, None),
    donate_argnums=(0,),
  )
  start, used = time.perf_counter(), time.process_time()
  lowered = partitioned.lower(initializer.global_train_state_shape, batch, key)
  compiled = lowered.compile()
  memory = compiled.memory_analysis()
  return {
    "seconds": time.perf_counter() - start,
    "processor_seconds": time.process_time() - used,
    "arguments": memory.argument_size_in_bytes,
    "temporaries": memory.temp_size_in_bytes,
    "peak": memory.peak_memory_in_bytes,
  }


if __name__ == "__main__":
  print(json.dumps(compile_step(json.loads(sys.argv[1]))))
