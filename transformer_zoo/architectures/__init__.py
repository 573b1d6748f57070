"""Architectures: the wiring of embedders, stacks and heads.

Imports modules only. Begin with `encoder_decoder.py`, then `decoder_only.py`;
`ensemble.py` averages several models. Training asks a model for
`logits_of_batch(batch, deterministic=)`, which takes the features of its
converter, and for `logits_of_hidden(hidden)`, which makes logits of some
targets at a time; decoding asks for `prefill` and `decode_step`.
"""
