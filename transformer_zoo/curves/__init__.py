"""Recorded curves of runs, drawn in the terminal by `zoo watch`.

Imports `training.monitoring`; only `cli/watch.py` imports it. Begin with
`screen.py`, which lays out and draws; `runs.py` reads what runs record while
they grow.
"""
