"""Settings of a training that are wrong by themselves: one sentence each."""

from transformer_zoo.errors import UserError

# JAX's keys have no more bits, where 64-bit types are off as they are here.
_SEEDS = 2**32


def check(
  model_dir: str, prepared_dir: str, train_steps: int, seed: int
) -> None:
  """Checks what is known before anything is read or built.

  Raises:
    UserError: a path names nothing or needs a shell to be read, there is no
      step, or the seed is not one of JAX's.
  """
  for name, path in (("MODEL_DIR", model_dir), ("PREPARED_DIR", prepared_dir)):
    if not path:
      raise UserError(f"{name} is '', which names no folder")
    if path.startswith("~"):
      raise UserError(
        f"{name}={path!r} begins with ~, which a shell alone reads; write the "
        "whole path"
      )
  if train_steps < 1:
    raise UserError(f"TRAIN_STEPS={train_steps} must be at least 1")
  if not 0 <= seed < _SEEDS:
    raise UserError(f"RANDOM_SEED={seed} must be from 0 to {_SEEDS - 1}")
