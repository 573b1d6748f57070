"""Architectures: the wiring of embedders, stacks and heads.

Imports modules only. Begin with `encoder_decoder.py`, then `decoder_only.py`;
`ensemble.py` averages several models.
"""
