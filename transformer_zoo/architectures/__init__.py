"""Architectures: the wiring of embedder, stacks and heads."""
