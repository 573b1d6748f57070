"""A student, and the teacher whose answers it learns.

In training alone: `train.model` is a `Distilled`, while MODEL stays the student
itself, which everything else builds (`gin_configs/parts/distillation.gin`).
"""

from collections.abc import Mapping
import dataclasses

from flax import linen as nn
import gin
import jax

from transformer_zoo.architectures.offers import Offers


@gin.register
class Distilled(nn.Module):
  """A model and its teacher, which read the same batches.

  The parameters of the student lie where they do without a teacher, those of
  the teacher under `teacher`. `objectives/distillation.py` applies both.

  Attributes:
    student: The model that is trained.
    teacher: A model of the same kind, which is not.
  """

  student: nn.Module
  teacher: nn.Module

  def setup(self):
    nn.share_scope(self, self.student)

  @property
  def offers(self) -> Offers:
    """What the student reads and computes; it is what is left."""
    return dataclasses.replace(self.student.offers, student=self.student)

  @property
  def pad_id(self) -> int:
    """The student's."""
    return self.student.pad_id

  @property
  def token_embedder(self) -> nn.Module:
    """The student's."""
    return self.student.token_embedder

  def all_logits(self, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """The logits of the student's heads, and of the teacher's."""
    taught = self.teacher.all_logits(batch)
    return {
      **self.student.all_logits(batch),
      **{f"teacher/{name}": logits for name, logits in taught.items()},
    }
