"""Checkpoints of other programs: Hugging Face directories and T5X's.

Whatever the format, parameters are a mapping from our names to `Tensor`s that
are read when they are asked for, so that one tensor is in memory at a time.
"""
