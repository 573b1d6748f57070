"""Objectives: (model, parameters, batch, key) to the loss and sums of metrics.

The loss is a sum over targets divided by the larger of 1 and
`sums["weight_sum"]`; gradients over several parts of a batch rely on that
(training/accumulation.py). Imports architectures and `peft`. Begin with
`sequence_to_sequence.py`; `losses.py` has cross-entropy, at once or in chunks.
"""
