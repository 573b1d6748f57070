"""C4's cleaning of web pages: rules, duplicates, languages, on Beam.

Imports Beam in `jobs.py`, `places.py` and `stages.py` alone; `data` and `cli`
use it. Begin with `rules.py`, the rules of the paper for one page, then
`run.py`.
"""
