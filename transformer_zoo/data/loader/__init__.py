"""Batches of prepared tasks: order, mixing, packing, by step alone.

Imports `data.storage`, `data.features` and `corruption`; no model and no
TensorFlow. Begin with `loader.py`, then `batches.py`, `mixture_reader.py` and
`sources.py`, which opens the sources of examples (`examples.py`).
"""
