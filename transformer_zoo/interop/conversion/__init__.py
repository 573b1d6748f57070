"""`zoo convert`: checkpoints between Hugging Face, T5X and our own runs.

Imports interop, config, modules and `runs`' folders; nothing of training
imports it. Begin with `convert.py`; `sources.py` is what it reads, `target.py`
where it writes.
"""
