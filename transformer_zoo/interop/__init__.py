"""Checkpoints of other programs: Hugging Face directories and T5X's.

Parameters of any format are a mapping from our names to `Tensor`s
(`tensors/`). `huggingface/` and `t5x/` are the formats; they import `tensors`,
`modules` and rooms below. Training from fresh parameters imports nothing of
this room. Begin with `tensors/links.py`.
"""
