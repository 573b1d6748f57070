"""Decoding: search over next-token functions, and generation with a model.

Imports the cache of `modules.attention`. Begin with `search.py`, then
`generate.py`, which drives it with a model; `options.py` has what a user may
bind.
"""
