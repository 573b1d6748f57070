"""Collectives of a compiled program, from HLO as compilers print it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_zoo.forecast import collectives
from transformer_zoo.forecast.collectives import Collective
from transformer_zoo.forecast.collectives import type_bytes

MESH = {"data": 2, "fsdp": 2, "model": 4}

# Shortened from libtpu's, names as they were: a loop without a note of its
# trips, an all-gather spread over fusions, asynchronous pairs.
TPU = """
HloModule jit__step, is_scheduled=true, num_partitions=16

%add (a.1: f32[], b.1: f32[]) -> f32[] {
  %a.1 = f32[]{:T(128)} parameter(0)
  %b.1 = f32[]{:T(128)} parameter(1)
  ROOT %sum.1 = f32[]{:T(128)} add(%a.1, %b.1)
}

%fused_computation.1 (p.1: bf16[512,64]) -> (bf16[512,64], bf16[2048,64]) {
  %p.1 = bf16[512,64]{1,0:T(8,128)(2,1)} parameter(0)
  %all-gather.1 = bf16[2048,64]{1,0:T(8,128)(2,1)} all-gather(%p.1), channel_id=7, replica_groups=[4,4]<=[16], dimensions={0}
  ROOT %tuple.1 = (bf16[512,64], bf16[2048,64]) tuple(%p.1, %all-gather.1)
}

%async_collective_fusion.2 (p.2: bf16[512,64]) -> bf16[2048,64] {
  %p.2 = bf16[512,64]{1,0:T(8,128)(2,1)} parameter(0)
  ROOT %all-gather.2 = bf16[2048,64]{1,0:T(8,128)(2,1)} all-gather(%p.2), channel_id=7, replica_groups=[4,4]<=[16], dimensions={0}
}

%inner_body (q.1: (s32[], bf16[512,64])) -> (s32[], bf16[512,64]) {
  %q.1 = (s32[]{:T(128)}, bf16[512,64]{1,0:T(8,128)(2,1)}) parameter(0)
  %get-tuple-element.1 = s32[]{:T(128)} get-tuple-element(%q.1), index=0
  %constant.1 = s32[]{:T(128)} constant(2)
  %add.1 = s32[]{:T(128)} add(%get-tuple-element.1, %constant.1)
  %get-tuple-element.2 = bf16[512,64]{1,0:T(8,128)(2,1)} get-tuple-element(%q.1), index=1
  %fusion.2 = bf16[2048,64]{1,0:T(8,128)(2,1)} fusion(%get-tuple-element.2), kind=kCustom, calls=%async_collective_fusion.2
  %collective-permute-start.1 = (bf16[512,64]{1,0:T(8,128)(2,1)}, bf16[512,64]{1,0:T(8,128)(2,1)}, u32[]{:S(2)}, u32[]{:S(2)}) collective-permute-start(%get-tuple-element.2), channel_id=3, source_target_pairs={{0,4},{4,0},{1,5},{5,1}}
  %collective-permute-done.1 = bf16[512,64]{1,0:T(8,128)(2,1)} collective-permute-done(%collective-permute-start.1)
  ROOT %tuple.2 = (s32[]{:T(128)}, bf16[512,64]{1,0:T(8,128)(2,1)}) tuple(%add.1, %collective-permute-done.1)
}

%inner_condition (q.2: (s32[], bf16[512,64])) -> pred[] {
  %constant.2 = s32[]{:T(128)} constant(12)
  %q.2 = (s32[]{:T(128)}, bf16[512,64]{1,0:T(8,128)(2,1)}) parameter(0)
  %get-tuple-element.3 = s32[]{:T(128)} get-tuple-element(%q.2), index=0
  ROOT %lt.1 = pred[]{:T(512)} compare(%get-tuple-element.3, %constant.2), direction=LT
}

ENTRY %main.1_spmd (param.1: bf16[512,64], param.2: f32[32,114]) -> f32[32,114] {
  %param.1 = bf16[512,64]{1,0:T(8,128)(2,1)} parameter(0)
  %param.2 = f32[32,114]{0,1:T(8,128)S(1)} parameter(1)
  %constant.3 = s32[]{:T(128)} constant(3)
  %copy.1 = s32[]{:T(128)} copy(%constant.3)
  %async-collective-start.1 = (bf16[512,64], bf16[2048,64]) fusion(%param.1), kind=kCustom, calls=%fused_computation.1
  %tuple.3 = (s32[]{:T(128)}, /*index=1*/bf16[512,64]{1,0:T(8,128)(2,1)}) tuple(%copy.1, %param.1)
  %while.1 = (s32[]{:T(128)}, bf16[512,64]{1,0:T(8,128)(2,1)}) while(%tuple.3), condition=%inner_condition, body=%inner_body, metadata={op_name="jit(_step)/while"}
  %all-reduce.1 = (f32[32,114]{0,1:T(8,128)S(1)}, f32[]{:T(128)}) all-reduce(%param.2, %constant.9), channel_id=1, replica_groups=mesh['axis_0'=4,'axis_1'=4] {'axis_0'}, use_global_device_ids=true, to_apply=%add
  %constant.9 = f32[]{:T(128)} constant(0)
  ROOT %get-tuple-element.9 = f32[32,114]{0,1:T(8,128)S(1)} get-tuple-element(%all-reduce.1), index=0
}
"""  # noqa: E501


def test_kinds_loops_and_asynchronous_pairs():
  found = collectives.read(TPU, MESH)
  # From 3 below 12 in steps of 2: five times, the last of them a short way.
  piece, tokens = 512 * 64 * 2, 32 * 114 * 4
  assert sorted(found, key=lambda each: each.kind) == [
    Collective("all-gather", ("model",), 4, 4 * piece, 1),
    Collective("all-reduce", ("data", "fsdp"), 4, tokens + 4, 1),
    Collective("collective-permute", ("fsdp",), 2, piece, 5),
  ]


def test_libtpu_cuts_an_all_reduce_where_it_scatters():
  text = """
%all-reduce-scatter.1.clone (input.1: bf16[8,64]) -> bf16[2,64] {
  %input.1 = bf16[8,64]{1,0:T(8,128)(2,1)} parameter(0)
  %all-reduce.2 = bf16[8,64]{1,0:T(8,128)(2,1)} all-reduce(%input.1), channel_id=5, replica_groups=[4,4]<=[16], to_apply=%add
  %constant.1 = s32[]{:T(128)} constant(0)
  ROOT %dynamic-slice.1 = bf16[2,64]{1,0:T(8,128)(2,1)} dynamic-slice(%all-reduce.2, %constant.1, %constant.1), dynamic_slice_sizes={2,64}
}

ENTRY %main.1_spmd (param.1: bf16[8,64]) -> bf16[2,64] {
  %param.1 = bf16[8,64]{1,0:T(8,128)(2,1)} parameter(0)
  ROOT %fusion.1 = bf16[2,64]{1,0:T(8,128)(2,1)} fusion(%param.1), kind=kCustom, calls=%all-reduce-scatter.1.clone
}
"""  # noqa: E501
  assert collectives.read(text, MESH) == [
    Collective("reduce-scatter", ("model",), 4, 8 * 64 * 2, 1)
  ]


def test_nothing_is_compiled():
  assert collectives.read("", MESH) == []


def test_totals_and_what_a_ring_sends():
  each = Collective("all-reduce", ("data",), 4, 100, 3)
  assert each.moved_bytes == 3 * 150
  assert Collective("all-gather", (), 4, 100, 1).moved_bytes == 75
  assert Collective("reduce-scatter", (), 4, 100, 1).moved_bytes == 75
  assert Collective("collective-permute", (), 2, 100, 1).moved_bytes == 100
  small = Collective("all-gather", ("data",), 2, 10, 1)
  first, second = collectives.totals([small, each, each])
  assert (first.kind, first.count, first.bytes) == ("all-reduce", 6, 600)
  assert (first.moved_bytes, second.moved_bytes) == (900, 5)


def test_a_loop_that_data_ends():
  text = TPU.replace("constant(12)", "parameter(1)")
  permute = collectives.read(text, MESH, unknown_trips=7)[0]
  assert (permute.kind, permute.times) == ("collective-permute", 7)


@pytest.mark.parametrize(
  "attributes, axes, group",
  [
    ("replica_groups=[4,4]<=[16]", ("model",), 4),
    ("replica_groups=[4,4]<=[4,4]T(1,0)", ("data", "fsdp"), 4),
    ("replica_groups=[8,2]<=[2,2,4]T(0,2,1)", ("fsdp",), 2),
    ("replica_groups=[1,16]<=[16]", ("data", "fsdp", "model"), 16),
    ("replica_groups={}", ("data", "fsdp", "model"), 16),
    ("replica_groups={{0,8},{1,9},{2,10},{3,11},{4,12},{5,13},{6,14},{7,15}}",
     ("data",), 2),
    ("replica_groups={{0,1},{2,3},{4,5},{6,7},{8,9},{10,11},{12,13},{14,15}}",
     (), 2),
    ("replica_groups={{0,4},{1,5},{2,6},{3,7}}", ("fsdp",), 2),
    ("replica_groups=mesh['axis_0'=4,'axis_1'=4] {'axis_1'}", ("model",), 4),
    ("replica_groups=mesh['a'=4,'b'=4] {'a':(1)2}", ("data",), 2),
    ("replica_groups=mesh['a'=4,'b'=4] {'a':(2)2}", ("fsdp",), 2),
    ("replica_groups=mesh['a'=1,'b'=4,'c'=4], device_ids=([4,4]T(1,0)) {'b'}",
     ("model",), 4),
    ("source_target_pairs={{0,1},{1,2},{2,3},{3,0}}", ("model",), 2),
    ("source_target_pairs={{0,12},{12,0}}", ("data", "fsdp"), 2),
  ],
)  # fmt: skip
def test_mesh_axes_of_groups(attributes, axes, group):
  assert collectives.axes_and_size(attributes, MESH) == (axes, group)


def test_bytes_of_types():
  assert type_bytes("bf16[12,768]{1,0:T(8,128)(2,1)S(1)}") == 12 * 768 * 2
  assert type_bytes("(f32[3], /*index=1*/pred[8], s4[10])") == 12 + 8 + 5
  assert type_bytes("f32[]{:T(128)}") == 4
  assert type_bytes("f8e4m3fn[7]") == 7


def test_what_xla_compiles_here():
  """A scanned loop whose sums over rows are known."""
  mesh = jax.make_mesh(
    (4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2
  )

  def spec(*axes):
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))

  def loop(x, w):
    def body(x, _):
      return jax.lax.with_sharding_constraint(x @ w, spec()), None

    return jax.lax.scan(body, x, length=6)[0]

  x = jax.ShapeDtypeStruct((8, 16), jnp.float32, sharding=spec())
  w = jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=spec("model", None))
  text = jax.jit(loop).lower(x, w).compile().as_text()
  (total,) = collectives.totals(collectives.read(text, mesh.shape))
  assert (total.kind, total.axes, total.count) == ("all-reduce", ("model",), 6)
  assert total.bytes == 6 * np.zeros((8, 16), np.float32).nbytes
