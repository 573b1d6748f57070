"""Noise masks: which tokens of a batch are corrupted.

Imports numpy only. Begin with `noise_masks.py` (independent tokens and spans);
`word_spans.py` has spans of whole words, `fixed_number.py` exact budgets.
"""
