"""Benchmarks in text-to-text form, one file a source, named as in t5.

Imports SeqIO, `tasks.formats`, `tasks.sources` and metrics. Begin with
`glue.py` and `squad.py`.
"""
