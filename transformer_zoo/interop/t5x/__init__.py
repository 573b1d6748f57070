"""T5X: its checkpoints read and written, and our models inside its trainer.

Imports numpy, TensorStore and `tensors`; `bridge.py` imports modules
and config too, and is for users of T5X. Begin with `checkpoints.py`; `links.py`
pairs T5X's parameters with ours.
"""
