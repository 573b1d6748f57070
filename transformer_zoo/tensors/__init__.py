"""Tensors of checkpoint files, read on demand, and their assignment.

Imports numpy and the libraries of checkpoint formats. Begin with
`lazy_tensors.py`, then `links.py` (which tensor of theirs is which parameter),
`assignment.py` (which parameter of a model is read from which of a checkpoint)
and the files: `safetensors.py`, `orbax_checkpoints.py`.
"""
