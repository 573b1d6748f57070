"""Rewrites: what becomes of the tokens that a noise mask has chosen.

Imports numpy only. Begin with `noise_rewrites.py`, T5's; `infilling.py` and
`sequence_noise.py` are BART's, `replacement.py` BERT's.
"""
