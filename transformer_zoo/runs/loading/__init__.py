"""Parameters of earlier runs and other sources, brought into a run.

Imports `training.checkpoints` and `interop`. Begin with
`checkpoint_sources.py`, the kinds of sources, and `restoration.py`, which puts
their parameters in the place of a run's; `initial_checkpoint.py` says what a
run starts from.
"""
