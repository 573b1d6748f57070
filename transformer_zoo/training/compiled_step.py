"""The compiled step of a run, which reports its layout when it is compiled."""

from collections.abc import Callable

import jax

from transformer_zoo.forecast import compilation
from transformer_zoo.processes import distributed
from transformer_zoo.training import layout_report
from transformer_zoo.training.program import TrainProgram


class CompiledStep:
  """(state, batch, history) -> what `program.step` returns."""

  def __init__(
    self,
    program: TrainProgram,
    dropout_key: jax.Array,
    say: Callable[[str], None] = print,
  ):
    """Initializes it; nothing is compiled yet.

    Args:
      program: The program of the step; it is called inside of its mesh and
        rules.
      dropout_key: The key of dropout of all steps.
      say: takes the lines of the report, at the first step of each shape.
    """
    self._program = program
    self._key = dropout_key
    self._say = say
    if program.compiled_steps:
      say("the programs of a run before this one are used again")

  @property
  def num_bytes(self) -> int:
    """The bytes on a device that the compiler plans for the largest step."""
    steps = self._program.compiled_steps.values()
    return max((compilation.memory_of(s).total for s in steps), default=0)

  def __call__(self, state, batch, history=None):
    shapes = tuple(batch[name].shape for name in sorted(batch))
    compiled = self._program.compiled_steps
    if shapes not in compiled:
      compiled[shapes] = self._compile(state, batch, history)
    return compiled[shapes](state, batch, self._key, history)

  def _compile(self, state, batch, history) -> jax.stages.Compiled:
    if not self._program.compiled_steps:
      for line in layout_report.layout(self._program):
        self._say(line)
    lowered = self._program.step.lower(state, batch, self._key, history)
    compiled = lowered.compile()
    self._say(layout_report.planned(compiled))
    # Gloo waits half a minute for a process to begin a step; compiling takes
    # some of them longer than others.
    distributed.barrier("a compiled step")
    return compiled
