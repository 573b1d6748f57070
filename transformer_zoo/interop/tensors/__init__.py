"""Tensors of checkpoint files, read when they are needed, and their assignment.

Imports numpy and the libraries of checkpoint formats. Begin with
`lazy_tensors.py`, then `assignment.py`, which finds for every parameter of a
model the tensor that it is read from.
"""
