"""Probes: questions by kind of knowledge, answered by likelihood.

Python alone: imports nothing of the package but errors. Begin with
`questions.py`, which reads them from `en.tsv` and `ko.tsv`;
`runs/analysis/probing.py` asks a checkpoint. The guide is
docs/guides/probes.md.
"""
