"""Processes: several programs that train, evaluate or infer as one.

Imports `errors` and `environment` only, and JAX inside functions. Begin with
`distributed.py` (start, comparison and end of the processes, over
`jax.distributed`); `agreement.py` has what they tell each other,
`clusters.py` finds the launcher, `claims.py` locks a run's folder against other
programs.
"""
