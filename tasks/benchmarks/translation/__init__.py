"""Benchmarks of translation, one file a source."""
