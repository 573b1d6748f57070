"""Episodes of gradual unfreezing, from numbers of layers and steps."""

import pytest

from transformer_zoo.errors import UserError
from transformer_zoo.peft.unfreezing import GradualUnfreezing

OUTSIDE = (
  "token_embedder/embedding",
  "encoder/encoder_norm/scale",
  "decoder/logits_dense/kernel",
)


def names(encoder, decoder):
  of_layers = [
    f"{stack}/layers_{i}/mlp/wi/kernel"
    for stack, depth in (("encoder", encoder), ("decoder", decoder))
    for i in range(depth)
  ]
  biases = [
    f"{stack}/relpos_bias/rel_embedding"
    for stack, depth in (("encoder", encoder), ("decoder", decoder))
    if depth
  ]
  return [*of_layers, *biases, *OUTSIDE]


def starts(encoder, decoder, steps, **options):
  found = GradualUnfreezing(steps, **options).starts(names(encoder, decoder))
  assert {found[name] for name in OUTSIDE} == {0}
  return {
    stack: [found[f"{stack}/layers_{i}/mlp/wi/kernel"] for i in range(depth)]
    for stack, depth in (("encoder", encoder), ("decoder", decoder))
    if depth
  }, found


def test_twelve_layers_in_twelve_episodes_of_the_paper():
  """Section 3.5.1: 2^18 steps; layers 12 - n to 12 in episode n."""
  by_stack, found = starts(12, 12, 2**18)
  for stack in ("encoder", "decoder"):
    for n in range(12):
      begun = n * 2**18 / 12
      trained = [i + 1 for i, at in enumerate(by_stack[stack]) if at <= begun]
      assert trained == list(range(12 - n, 13))
    # Shared by all layers, and the first one's in T5's code.
    assert found[f"{stack}/relpos_bias/rel_embedding"] == 11 * 2**18 // 12


def test_other_depths():
  assert starts(3, 3, 300)[0]["encoder"] == [200, 100, 0]
  by_stack, found = starts(6, 2, 600)
  assert by_stack["encoder"] == [500, 400, 300, 200, 100, 0]
  assert by_stack["decoder"] == [100, 0]  # In parallel, from the top.
  assert found["decoder/relpos_bias/rel_embedding"] == 100
  assert starts(0, 4, 8)[0]["decoder"] == [6, 4, 2, 0]
  assert starts(1, 1, 100)[0]["encoder"] == [0]
  assert starts(12, 12, 6)[0]["encoder"][::-1] == [n // 2 for n in range(12)]


def test_fewer_episodes_add_several_layers_at_once():
  by_stack, _ = starts(4, 4, 100, episodes=2)
  assert by_stack["decoder"] == [50, 50, 0, 0]
  assert starts(4, 4, 100, episodes=1)[0]["decoder"] == [0, 0, 0, 0]


def test_what_is_trained_with_the_first_layer_is_a_choice():
  found = GradualUnfreezing(8, with_first_layer=(r".*embedd.*",)).starts(
    ["decoder/layers_0/x", "decoder/layers_1/x", "decoder/embedder/table"]
  )
  assert [*found.values()] == [4, 0, 4]


def test_refusals():
  with pytest.raises(UserError) as error:
    GradualUnfreezing(8, episodes=0)
  assert str(error.value) == "GradualUnfreezing.episodes=0 must be at least 1"
  with pytest.raises(UserError) as error:
    GradualUnfreezing(8).starts(OUTSIDE)
  assert str(error.value) == (
    "GradualUnfreezing: the model has no layers to unfreeze"
  )
