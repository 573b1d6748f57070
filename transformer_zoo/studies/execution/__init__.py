"""The runs of a study: planned, started, resumed and recorded.

Imports runs, forecast, processes and `studies.design`. Begin with `runner.py`;
`single_run.py` claims and trains one run, `results.py` reads what a study's
folder holds.
"""
