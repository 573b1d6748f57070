"""Assignment of tensors; the error lists all that do not fit."""

import numpy as np
import pytest

from transformer_zoo import parameter_names
from transformer_zoo.errors import UserError
from transformer_zoo.parameter_names import Parameter
from transformer_zoo.tensors.assignment import assign
from transformer_zoo.tensors.assignment import Rules
from transformer_zoo.tensors.lazy_tensors import Tensor

ADVICE = (
  "(InitialCheckpoint.assignments can read a parameter under another name or "
  "leave it fresh; InitialCheckpoint.ignore_unused passes over extra ones)"
)
MODEL = {
  "token_embedder/embedding": Parameter((8, 4), ("vocab", "embed")),
  "decoder/layers_0/mlp/wi/kernel": Parameter((4, 6), ("embed", "mlp")),
  "decoder/layers_1/mlp/wi/kernel": Parameter((4, 6), ("embed", "mlp")),
  "decoder/position_embedder/embedding": Parameter(
    (5, 4), ("abspos_buckets", "embed")
  ),
  "decoder/logits_dense/kernel": Parameter((4, 8), ("embed", "vocab")),
}


def checkpoint(**changes):
  """Tensors like the model's; None takes one away."""
  shapes = {name: parameter.shape for name, parameter in MODEL.items()}
  shapes |= {name.replace("__", "/"): s for name, s in changes.items()}
  return {
    name: Tensor.of(np.zeros(shape))
    for name, shape in shapes.items()
    if shape is not None
  }


def refusal(there, *assignments, **rules) -> str:
  with pytest.raises(UserError) as caught:
    assign(MODEL, there, Rules(assignments, **rules), "'c'")
  return str(caught.value)


def test_by_name():
  there = checkpoint()
  found = assign(MODEL, there, Rules(), "'c'")
  assert found.tensors == there
  assert not found.resized and not found.unused


def test_tensors_are_in_the_order_of_the_checkpoint():
  there = dict(reversed(checkpoint().items()))
  fresh = r"token_embedder/.*"
  found = assign(MODEL, there, Rules(((fresh, None),)), "'c'")
  *read, last = there
  assert list(found.tensors) == [*read, last]
  assert found.tensors[last] is None


def test_the_difference_is_told_completely_layers_together():
  there = checkpoint(
    decoder__logits_dense__kernel=None,
    decoder__layers_0__mlp__wi__kernel=(4, 7),
    decoder__layers_1__mlp__wi__kernel=(4, 7),
    decoder__logits__kernel=(4, 8),
    decoder__layers_0__mlp__wi__bias=(7,),
    decoder__layers_1__mlp__wi__bias=(7,),
    decoder__layers_2__mlp__wi__bias=(7,),
    decoder__layers_4__mlp__wi__bias=(7,),
  )
  assert refusal(there).split("\n") == [
    "the parameters of 'c' are not the model's",
    "missing (1):",
    "  decoder/logits_dense/kernel (4, 8); did you mean "
    "'decoder/logits/kernel'?",
    "of other shapes or types (2):",
    "  decoder/layers_{0..1}/mlp/wi/kernel (4, 7) instead of (4, 6)",
    "extra (5):",
    "  decoder/logits/kernel (4, 8)",
    "  decoder/layers_{0..2,4}/mlp/wi/bias (7,)",
    ADVICE,
  ]


def test_whole_numbers_are_no_parameters():
  name = "token_embedder/embedding"
  there = checkpoint() | {name: Tensor.of(np.zeros((8, 4), np.int8))}
  assert f"{name} int8 instead of floating-point numbers" in refusal(there)


def test_layers_that_the_model_has_not_are_extra():
  there = checkpoint(decoder__layers_2__mlp__wi__kernel=(4, 6))
  assert refusal(there).split("\n")[1:-1] == [
    "extra (1):",
    "  decoder/layers_2/mlp/wi/kernel (4, 6)",
  ]
  found = assign(MODEL, there, Rules(ignore_unused=True), "'c'")
  assert found.unused == ["decoder/layers_2/mlp/wi/kernel"]


def test_the_first_rule_that_matches_counts():
  there = checkpoint(
    decoder__layers_0__mlp__wi__kernel=None,
    decoder__layers_1__mlp__wi__kernel=None,
    decoder__logits_dense__kernel=None,
    block_0__wi=(4, 6),
    block_1__wi=(4, 6),
  )
  rules = Rules(
    (
      (r"decoder/layers_1/.*", "block_0/wi"),
      (r"decoder/layers_(\d+)/mlp/(\w+)/kernel", r"block_\1/\2"),
      (r"decoder/logits_dense/.*", None),
    ),
    ignore_unused=True,
  )
  found = assign(MODEL, there, rules, "'c'")
  tensors = found.tensors
  assert tensors["decoder/layers_0/mlp/wi/kernel"] is there["block_0/wi"]
  assert tensors["decoder/layers_1/mlp/wi/kernel"] is there["block_0/wi"]
  assert tensors["decoder/logits_dense/kernel"] is None
  assert found.unused == ["block_1/wi"]


def test_what_stays_fresh_may_match_nothing():
  there = checkpoint(decoder__logits_dense__kernel=None)
  rules = Rules(fresh=(r"decoder/logits_dense/.*", r".*/bitfit_bias"))
  found = assign(MODEL, there, rules, "'c'")
  assert found.tensors["decoder/logits_dense/kernel"] is None


def test_what_stays_fresh_is_let_go_of_in_the_checkpoint():
  there = checkpoint(decoder__logits_dense__bias=(8,), encoder__norm=(4,))
  keep = ((r"decoder/logits_dense/.*", None), (r"encoder/.*", None))
  found = assign(MODEL, there, Rules(keep), "'c'")
  assert found.tensors["decoder/logits_dense/kernel"] is None
  assert found.unused == [
    "decoder/logits_dense/kernel",
    "decoder/logits_dense/bias",
    "encoder/norm",
  ]
  assert "extra (2):" in refusal(there, (r".*/kernel", None))


@pytest.mark.parametrize(
  "rule, sentence",
  [
    (
      (r"decoder/logits/.*", None),
      "'decoder/logits/.*' matches (as a whole) no parameter that an earlier "
      "one has left",
    ),
    (
      ("decoder/logit_dense/kernel", None),
      "'decoder/logit_dense/kernel' matches (as a whole) no parameter that an "
      "earlier one has left; did you mean 'decoder/logits_dense/kernel'?",
    ),
    (("(", None), "'(' is no regular expression (missing ), unterminated"),
    (
      ("decoder/(.*)", r"\2"),
      r"'\\2' does not fit the expression 'decoder/(.*)' (invalid group ref",
    ),
  ],
)
def test_a_wrong_rule(rule, sentence):
  assert refusal(checkpoint(), rule).startswith(
    f"InitialCheckpoint.assignments: {sentence}"
  )


def test_a_rule_behind_one_that_takes_all_is_told():
  rules = (r"decoder/.*", None), (r"decoder/logits_dense/.*", None)
  assert "matches (as a whole) no parameter" in refusal(checkpoint(), *rules)


def test_a_rule_whose_name_is_not_there():
  rule = (r"decoder/layers_(\d)/(.*)", r"decoder/layers_\1/block/\2")
  lines = refusal(checkpoint(), rule).split("\n")
  assert lines[2] == (
    "  decoder/layers_{0..1}/mlp/wi/kernel (4, 6), by a rule from "
    "'decoder/layers_*/block/mlp/wi/kernel'; did you mean "
    "'decoder/layers_*/mlp/wi/kernel'?"
  )


class TestRows:
  there = checkpoint(
    token_embedder__embedding=(9, 4),
    decoder__position_embedder__embedding=(3, 4),
    decoder__logits_dense__kernel=(4, 9),
  )

  def test_refused_by_default(self):
    vocabulary = "; allow it by InitialCheckpoint.resize_vocabulary = True"
    assert refusal(self.there).split("\n")[1:-1] == [
      "of other shapes or types (3):",
      f"  token_embedder/embedding (9, 4) instead of (8, 4){vocabulary}",
      "  decoder/position_embedder/embedding (3, 4) instead of (5, 4); allow "
      "it by InitialCheckpoint.resize_positions = True",
      f"  decoder/logits_dense/kernel (4, 9) instead of (4, 8){vocabulary}",
    ]

  def test_allowed(self):
    rules = Rules(
      resized=("vocabulary", "positions"), rows_in_use={"vocabulary": 8}
    )
    found = assign(MODEL, self.there, rules, "'c'")
    assert found.tensors == self.there
    assert found.resized == {
      "token_embedder/embedding": "(8, 4) from (9, 4)",
      "decoder/position_embedder/embedding": "(5, 4) from (3, 4)",
      "decoder/logits_dense/kernel": "(4, 8) from (4, 9)",
    }

  def test_rows_in_use_are_not_cut(self):
    text = refusal(
      self.there,
      resized=("vocabulary", "positions"),
      rows_in_use={"vocabulary": 9},
    )
    assert text.split("\n")[1:3] == [
      "of other shapes or types (2):",
      "  token_embedder/embedding (9, 4) instead of (8, 4); the first 9 are in "
      "use and cannot be cut",
    ]

  def test_no_other_axis_is_resized(self):
    there = checkpoint(token_embedder__embedding=(9, 5))
    text = refusal(there, resized=("vocabulary",))
    assert "embedding (9, 5) instead of (8, 4)\n" in text


def test_names_of_layers_in_a_scanned_parameter():
  assert parameter_names.names_in(
    "decoder/layers/mlp/wi/kernel", (2, 4, 6)
  ) == [
    "decoder/layers_0/mlp/wi/kernel",
    "decoder/layers_1/mlp/wi/kernel",
  ]
  assert parameter_names.names_in("decoder/layers_0/mlp/wi/kernel", (4, 6)) == [
    "decoder/layers_0/mlp/wi/kernel"
  ]
