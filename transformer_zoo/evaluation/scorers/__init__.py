"""Scorers: what a model makes of the examples of a batch.

A scorer computes on the devices and reads what came back: for each example a
row of values, among them `prediction`, the text that the text-to-text task has
as its target. So metrics, predictions and submissions do not depend on how a
model answers. Imports numpy and `data`; models reach it as functions. Begin
with `interface.py`; `text.py` writes, the others read the heads of an encoder.
"""
