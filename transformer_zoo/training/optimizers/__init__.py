"""Optimizers and learning rate schedules, by the names that gin binds.

An optimizer is an `optax.GradientTransformation` that a function registered
with gin makes of a learning rate schedule. Imports optax and `errors`. Begin
with `adafactor.py`; `shared.py` has what all optimizers have in common,
`schedules.py` the learning rates.
"""
