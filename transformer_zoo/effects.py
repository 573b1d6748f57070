"""Effects of settings: each setting is marked once with what it affects.

    packing: Result[bool] = True
    num_microbatches: Speed[int] = 1
    model_dir: Place[str]

The mark is part of the annotation of a parameter that gin binds, of a function
or of a dataclass. A parameter without a mark affects what the setting affects
through which it is reached: the fields of `Partitioning` are settings of speed,
because `train.partitioning` is one.
"""

import enum
import typing
from typing import Annotated, Any, TypeVar


class Effect(enum.IntEnum):
  """The effect of a setting, the weakest first.

  Attributes:
    PLACE: where a run reads and writes, with how many processes, and who
      watches it. Runs that differ in it alone are the same run.
    SPEED: how a run is laid out over devices and time, which of its states are
      saved, and what an abnormal step leads to. A run may resume with another
      value, which the console prints.
    RESULT: what is computed. A run folder refuses another value.
  """

  PLACE = 0
  SPEED = 1
  RESULT = 2


_T = TypeVar("_T")
Place = Annotated[_T, Effect.PLACE]
Speed = Annotated[_T, Effect.SPEED]
Result = Annotated[_T, Effect.RESULT]


def marked(annotation: Any) -> Effect | None:
  """Returns the mark of an annotation, or None if it has none."""
  if typing.get_origin(annotation) is not Annotated:
    return None
  marks = (each for each in annotation.__metadata__ if isinstance(each, Effect))
  return next(marks, None)
