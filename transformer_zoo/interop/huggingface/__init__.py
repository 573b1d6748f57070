"""Checkpoints as the `transformers` package keeps them: a family, a file."""
