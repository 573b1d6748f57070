"""Training: the state, one step, the compiled program and the loop.

Imports objectives and everything below them; never data, runs or decoding.
Begin with `step.py`, then `program.py` (the step on a mesh), `loop.py` and
`watching.py` (what is measured);
`optimizers/`, `sharding/`, `checkpoints/` and `monitoring/` are its parts.
"""
