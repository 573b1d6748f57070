"""Benchmarks of summaries, one file a source."""
