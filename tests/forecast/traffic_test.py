"""Bytes of a compiled program by part and kind, from HLO as it is printed."""

import jax
import jax.numpy as jnp

from transformer_zoo.forecast import traffic
from transformer_zoo.forecast.traffic import Total

TPU = """
HloModule jit__step, is_scheduled=true

%fused_slice (p.1: f32[12,64], p.2: s32[]) -> f32[64] {
  %p.1 = f32[12,64]{1,0:T(8,128)} parameter(0)
  %p.2 = s32[]{:T(128)} parameter(1)
  %zero = s32[]{:T(128)} constant(0)
  %slice = f32[1,64]{1,0:T(8,128)} dynamic-slice(%p.1, %p.2, %zero), dynamic_slice_sizes={1,64}
  ROOT %cast = f32[64]{0:T(128)} bitcast(%slice)
}

%fused_product (q.1: bf16[8,64], q.2: f32[64]) -> bf16[8,64] {
  %q.1 = bf16[8,64]{1,0:T(8,128)(2,1)} parameter(0)
  %q.2 = f32[64]{0:T(128)} parameter(1)
  ROOT %product = bf16[8,64]{1,0:T(8,128)(2,1)} convolution(%q.1, %q.2), dim_labels=bf_io->bf
}

%fused_update (r.1: f32[12,64], r.2: f32[64], r.3: s32[]) -> f32[12,64] {
  %r.1 = f32[12,64]{1,0:T(8,128)} parameter(0)
  %r.2 = f32[64]{0:T(128)} parameter(1)
  %r.3 = s32[]{:T(128)} parameter(2)
  %row = f32[1,64]{1,0:T(8,128)} reshape(%r.2)
  ROOT %update = f32[12,64]{1,0:T(8,128)} dynamic-update-slice(%r.1, %row, %r.3, %r.3)
}

%body (b.1: (s32[], f32[12,64], bf16[8,64])) -> (s32[], f32[12,64], bf16[8,64]) {
  %b.1 = (s32[]{:T(128)}, f32[12,64]{1,0:T(8,128)}, bf16[8,64]{1,0:T(8,128)(2,1)}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%b.1), index=0
  %stack = f32[12,64]{1,0:T(8,128)} get-tuple-element(%b.1), index=1
  %x = bf16[8,64]{1,0:T(8,128)(2,1)} get-tuple-element(%b.1), index=2
  %fusion.1 = f32[64]{0:T(128)S(1)} fusion(%stack, %i), kind=kLoop, calls=%fused_slice, metadata={op_name="jit(step)/jvp(T5)/encoder/layers/mlp/wi/slice"}
  %fusion.2 = bf16[8,64]{1,0:T(8,128)(2,1)} fusion(%x, %fusion.1), kind=kOutput, calls=%fused_product, metadata={op_name="jit(step)/jvp(T5)/encoder/layers/mlp/wi/dot_general"}
  %fusion.3 = f32[12,64]{1,0:T(8,128)} fusion(%stack, %fusion.1, %i), kind=kLoop, calls=%fused_update, metadata={op_name="jit(step)/adafactor/add"}
  %call.1 = bf16[8,64]{1,0:T(8,128)(2,1)} custom-call(%fusion.2), custom_call_target="tpu_custom_call", metadata={op_name="jit(step)/jvp(T5)/encoder/attention/forward_kernel"}
  ROOT %tuple.1 = (s32[]{:T(128)}, f32[12,64]{1,0:T(8,128)}, bf16[8,64]{1,0:T(8,128)(2,1)}) tuple(%i, %fusion.3, %call.1)
}

%condition (c.1: (s32[], f32[12,64], bf16[8,64])) -> pred[] {
  %c.1 = (s32[]{:T(128)}, f32[12,64]{1,0:T(8,128)}, bf16[8,64]{1,0:T(8,128)(2,1)}) parameter(0)
  ROOT %true = pred[]{:T(512)} constant(true)
}

ENTRY %main (a.1: (s32[], f32[12,64], bf16[8,64])) -> (s32[], f32[12,64], bf16[8,64]) {
  %a.1 = (s32[]{:T(128)}, f32[12,64]{1,0:T(8,128)}, bf16[8,64]{1,0:T(8,128)(2,1)}) parameter(0)
  ROOT %loop = (s32[]{:T(128)}, f32[12,64]{1,0:T(8,128)}, bf16[8,64]{1,0:T(8,128)(2,1)}) while(%a.1), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"12"}}
}
"""  # noqa: E501


def test_a_loop_of_slices_a_product_a_kernel_and_updates():
  """Slices of stacked layers count, not the stack; vector memory is free."""
  row, x = 64 * 4, 8 * 64 * 2
  found = set(traffic.totals(TPU))
  assert found == {
    # The index is four bytes; what is read stays in vector memory.
    Total("feed-forward", "fusions", 12, 12 * (row + 4)),
    Total("feed-forward", "products", 12, 12 * 2 * x),
    Total("optimizer", "fusions", 12, 12 * (row + 4)),
    Total("attention kernel", "kernels", 12, 12 * 2 * x),
  }


# Fetched whole and in slices, and written back.
MOVED = """
HloModule jit__step, is_scheduled=true

ENTRY %main (a.1: f32[8,64]) -> f32[8,64] {
  %a.1 = f32[8,64]{1,0:T(8,128)} parameter(0)
  %start.1 = (f32[8,64]{1,0:T(8,128)S(1)}, f32[8,64]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%a.1)
  %done.1 = f32[8,64]{1,0:T(8,128)S(1)} copy-done(%start.1)
  %start.2 = ((f32[8,64]{1,0:T(8,128)}), f32[2,64]{1,0:T(8,128)S(1)}, s32[]{:S(2)}) slice-start(%a.1), slice={[0:2], [0:64]}
  %done.2 = f32[2,64]{1,0:T(8,128)S(1)} slice-done(%start.2)
  %start.3 = (f32[8,64]{1,0:T(8,128)}, f32[8,64]{1,0:T(8,128)S(1)}, u32[]{:S(2)}) copy-start(%done.1)
  ROOT %done.3 = f32[8,64]{1,0:T(8,128)} copy-done(%start.3)
}
"""  # noqa: E501


def test_what_moves_between_memories_counts_in_either_direction_once():
  whole = 8 * 64 * 4
  assert set(traffic.totals(MOVED)) == {
    Total("other", "copies", 2, 2 * whole),
    Total("other", "slice", 1, whole // 4),
  }


def test_a_program_of_this_machine_is_read():
  """At least its arguments and results, for each turn of the loop."""

  def loop(x, w):
    return jax.lax.fori_loop(0, 5, lambda _, x: jnp.tanh(x @ w), x)

  x, w = jnp.ones((128, 256)), jnp.ones((256, 256))
  text = jax.jit(loop).lower(x, w).compile().as_text()
  moved = sum(row.bytes for row in traffic.totals(text))
  turn = 2 * x.nbytes + w.nbytes
  assert 5 * turn <= moved <= 15 * turn


def test_a_program_that_was_refused_moves_nothing():
  assert traffic.totals("") == []
