"""Objectives: (model, parameters, batch, key) to the loss and sums of metrics.

Imports architectures and `peft`. Begin with `sequence_to_sequence.py`;
`losses.py` has cross-entropy, at once or in chunks.
"""
