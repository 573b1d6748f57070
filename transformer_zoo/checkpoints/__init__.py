"""Checkpoints that a command reads: runs, Hugging Face directories, T5X's.

Imports the formats of `interop`, `tensors`, `config`, `data`, `decoding`'s
options and `training.checkpoints`; `conversion` and `runs` import it. Begin
with `checkpoint_sources.py`, the kinds of sources; `run_layout.py` names the
files of a run folder, `remote.py` fetches those at URLs.
"""
