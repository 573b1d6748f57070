"""Objectives: (model, parameters, batch, key) to terms by name.

A term (terms.py) is a sum over targets or rows and the weight that divides it;
the loss is the sum of the quotients, and gradients over several parts of a
batch rely on that (training/step.py). Imports modules and architectures.
Begin with `interface.py` and `sequence_to_sequence.py`, then `encoder.py`;
`losses.py` has cross-entropy, at once or in chunks.
"""
