"""The files of prepared tasks: records, token streams, manifests, checksums.

Imports numpy and array_record. Begin with `manifest.py`, which describes what
lies in a folder; `records.py` and `token_stream.py` read it.
"""
