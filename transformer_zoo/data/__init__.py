"""Data: prepared record files, and the loader that turns them into batches.

Knows no model. `prepare/` and the adapter to SeqIO in `vocabularies/` alone
import SeqIO and TensorFlow; `storage/` is the files on disk, `loader/` the
batches, `features/` their layout, `vocabularies/` ids and texts. Begin with
`loader/loader.py`.
"""
