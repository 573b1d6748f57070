"""Checkpoints of other programs: Hugging Face directories and T5X's.

Parameters of any format are a mapping from our names to `Tensor`s, which are
read on demand, so that one tensor is in memory at a time. `tensors/` has this
mapping, `huggingface/` and `t5x/` the formats; the three import `modules` and
rooms below. `conversion/` is `zoo convert`, beside `runs`. Training from fresh
parameters imports nothing of this room. Begin with `tensors/links.py`.
"""
