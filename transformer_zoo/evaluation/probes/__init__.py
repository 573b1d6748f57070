"""Probes: questions by kind of knowledge, answered by likelihood.

Python alone: imports nothing of the package but errors. Begin with
`questions.py`; `english.py` and `korean.py` hold the words. `runs/probing.py`
asks a checkpoint. docs/guides/probes.md is the guide.
"""
