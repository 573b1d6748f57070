import pytest

from transformer_zoo.data.loader.stages import Stages
from transformer_zoo.errors import UserError

LENGTHS = {"inputs": 64, "targets": 16}
SHORT = {"inputs": 32, "targets": 16}


def test_without_warm_up_there_is_one_stage():
  stages = Stages(8, LENGTHS)
  stage, row = stages(1000)
  assert (stage.batch_size, stage.phase, row) == (8, 0, 8000)
  assert stages.phases == (LENGTHS,)
  assert stages.rows_before(5) == [40]


def test_batch_size_and_lengths_change_at_their_steps():
  stages = Stages(8, LENGTHS, {10: 2, 20: 4}, {15: SHORT})
  assert stages.phases == (SHORT, LENGTHS)
  found = [stages(step) for step in (0, 9, 10, 14, 15, 19, 20, 25)]
  assert [(s.batch_size, s.phase, row) for s, row in found] == [
    (2, 0, 0),
    (2, 0, 18),
    (4, 0, 20),
    (4, 0, 36),
    (4, 1, 0),  # rows of new lengths are counted anew
    (4, 1, 16),
    (8, 1, 20),
    (8, 1, 60),
  ]


@pytest.mark.parametrize("step", [0, 5, 10, 15, 17, 30])
def test_rows_and_tokens_before_a_step_are_those_of_the_steps(step):
  stages = Stages(8, LENGTHS, {10: 2, 20: 4}, {15: SHORT})
  rows, tokens = [0, 0], 0
  for earlier in range(step):
    stage, _ = stages(earlier)
    rows[stage.phase] += stage.batch_size
    tokens += stage.batch_size * sum(stages.phases[stage.phase].values())
  assert stages.rows_before(step) == rows[: 2 if step > 15 else 1]
  both = tuple(LENGTHS)
  assert stages.tokens(0, step, both) == tokens
  assert stages.tokens(5, 5 + step, both) == (
    stages.tokens(0, 5 + step, both) - stages.tokens(0, 5, both)
  )
  alone = [stages.tokens(0, step, [name]) for name in both]
  assert sum(alone) == tokens
  assert stages.rows_of(0) == 10 * 2 + 5 * 4


@pytest.mark.parametrize(
  "arguments, message",
  [
    ((0, LENGTHS), "The batch size 0 must be a whole number of rows, 1 or"),
    ((8, LENGTHS, {0: 4}), "batch_size_warmup has the step 0; give the first"),
    ((8, LENGTHS, {5: 2.5}), "The batch size 2.5 must be a whole number of"),
    (
      (8, LENGTHS, None, {5: {"inputs": 8}}),
      "length_warmup before step 5 is {'inputs': 8}; give the tokens of "
      "'inputs', 'targets', as in {'inputs': 64, 'targets': 16}",
    ),
    (
      (8, LENGTHS, None, {5: {"inputs": 65, "targets": 8}}),
      "length_warmup before step 5 gives 'inputs' 65 tokens; it must be "
      "between 1 and the 64 of the steps after the warm-up",
    ),
  ],
)
def test_impossible_stages_are_refused(arguments, message):
  with pytest.raises(UserError, match=message):
    Stages(*arguments)
