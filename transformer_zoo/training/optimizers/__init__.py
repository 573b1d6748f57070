"""Optimizers and learning rate schedules, by the names that gin binds.

Imports optax and `errors`. Begin with `adafactor.py`; `shared.py` has what all
optimizers have in common, `schedules.py` the learning rates.
"""
