"""Architectures: the wiring of embedders, stacks and heads.

Imports modules only. Begin with `transformer.py`, the layers with what stands
around them, then `encoder_only.py`, `encoder_decoder.py` and
`decoder_only.py`; `ensemble.py` averages several models. Every model has
`offers` (offers.py), what it reads and computes; `hidden(batch,
deterministic=)`; `logits(hidden)`, which in an encoder also takes the name of a
head; and `all_logits(batch)`, the logits of every head by name. Decoding asks
for `prefill` and `decode_step`.
"""
