"""Probes: questions by kind of knowledge, answered by likelihood.

Python alone: imports nothing of the package but errors. Begin with
`questions.py`; `english.py` and `korean.py` hold the words.
`runs/analysis/probing.py` asks a checkpoint. The guide is
docs/guides/probes.md.
"""
