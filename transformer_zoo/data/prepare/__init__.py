"""Preparation: the deterministic steps of SeqIO tasks, run once into files.

The only room of `data` that runs SeqIO and TensorFlow. Begin with
`preparation.py` (a mixture), then `task_writer.py` (the shards of a task) and
`fingerprints.py` (what prepared records depend on).
"""
