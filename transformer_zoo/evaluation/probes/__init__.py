"""Probes: questions by kind of knowledge, answered by likelihood.

Python alone: imports nothing of the package but errors and schemas. Begin with
`questions.py`, which reads them from `en.tsv` and `ko.tsv`; `pairs.py`,
`suites.py` and `relations.py` read files of others. `runs/analysis/probing.py`
and `recall.py` ask a checkpoint. The guide is docs/guides/probes.md.
"""
