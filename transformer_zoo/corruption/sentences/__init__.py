"""Objectives on whole sentences: pairs of segments, and packed sentences.

Imports numpy only. Begin with `documents.py` (text as sentences), then
`sentence_pairs.py` (BERT, ALBERT) and `sentence_packing.py` (RoBERTa).
"""
