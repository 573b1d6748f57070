"""The compiled step of a run, which reports its layout when it is compiled."""

from collections.abc import Callable
from concurrent import futures

import jax

from transformer_zoo.forecast import compilation
from transformer_zoo.processes import distributed
from transformer_zoo.training import layout_report
from transformer_zoo.training.monitoring import anomalies
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
    self._begun: dict[tuple, futures.Future] = {}
    if program.compiled_steps:
      say("the programs of a run before this one are used again")

  @property
  def num_bytes(self) -> int:
    """The bytes on a device that the compiler plans for the largest step."""
    steps = self._program.compiled_steps.values()
    return max((compilation.memory_of(s).total for s in steps), default=0)

  def begin(self, batch) -> None:
    """Begins to compile the step of a batch while other work goes on.

    Args:
      batch: The shapes and shardings of a batch.
    """
    shapes = _shapes(batch)
    if shapes not in self._program.compiled_steps:
      state, history = self._program.abstract_state, None
      if self._program.anomalies.are_looked_for:
        history = self._program.place_history(anomalies.initial_history())
      lowered = self._lower(state, batch, history)
      self._begun[shapes] = futures.ThreadPoolExecutor(1).submit(
        lowered.compile
      )

  def __call__(self, state, batch, history=None):
    shapes = _shapes(batch)
    compiled = self._program.compiled_steps
    if shapes not in compiled:
      compiled[shapes] = self._compile(state, batch, history)
    return compiled[shapes](state, batch, self._key, history)

  def _lower(self, state, batch, history) -> jax.stages.Lowered:
    if not self._program.compiled_steps:
      for line in layout_report.layout(self._program):
        self._say(line)
    return self._program.step.lower(state, batch, self._key, history)

  def _compile(self, state, batch, history) -> jax.stages.Compiled:
    if begun := self._begun.pop(_shapes(batch), None):
      compiled = begun.result()
    else:
      compiled = self._lower(state, batch, history).compile()
    self._say(layout_report.planned(compiled))
    # Gloo waits half a minute for a process to begin a step; compiling takes
    # some of them longer than others.
    distributed.barrier("a compiled step")
    return compiled


def _shapes(batch) -> tuple:
  return tuple((batch[n].shape, batch[n].dtype) for n in sorted(batch))
