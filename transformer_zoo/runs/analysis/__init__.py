"""Looks into trained models: attention, probes, edits.

Imports `evaluation.probes`, `editing` and the other files of `runs`. Begin with
`probing.py`, then `attention_maps.py` and `editing.py`.
"""
