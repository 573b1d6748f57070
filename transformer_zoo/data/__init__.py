"""Data: prepared record files, and the loader that turns them into batches.

Knows no model. `prepare/` and the adapter to SeqIO in `vocabularies/` alone
import SeqIO and TensorFlow; `storage/` is the files on disk, `loader/` the
batches, `features/` their layout, `vocabularies/` ids and texts;
`mixing.py` has the rates of mixtures and `trimming.py` cuts what is too long.
Begin with `loader/loader.py`.
"""
