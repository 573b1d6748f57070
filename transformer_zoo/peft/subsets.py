"""Parameters of the base that are trained by themselves, or with a method."""

import gin

from transformer_zoo.peft.method import Method
from transformer_zoo.peft.method import Rule

NORMS = Method(name="norms", trains=r".*norm/.*")
EMBEDDINGS = Method(name="embeddings", trains=r"(token|target)_embedder/.*")


@gin.register
def norms() -> Rule:
  """Trains the normalizations."""
  return Rule(NORMS)


@gin.register
def embeddings() -> Rule:
  """Trains the token embeddings."""
  return Rule(EMBEDDINGS)
