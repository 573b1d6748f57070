"""Parameters of earlier runs and other sources, brought into a run.

Imports `checkpoints`, `conversion`'s sources and `training`. Begin with
`initial_checkpoint.py`, what a run starts from, and `restoration.py`, which
puts its parameters in the place of a run's.
"""
