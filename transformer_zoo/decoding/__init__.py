"""Decoding: search over next-token functions, and generation with a model."""
