"""Checkpoints of runs: saved by Orbax, verified by checksums.

Imports Orbax and `training.state`. Begin with `run_checkpoints.py` (a run saves
and restores), then `reading.py` (any program finds and reads a checkpoint) and
`retention.py` (which are kept).
"""
