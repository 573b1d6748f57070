"""Runs: training, evaluation and inference, wired together by gin.

Imports every room but `studies`, `forecast`'s reports and `cli`. Begin with
`train.py`, then `evaluate.py` and `infer.py`; `run_folder.py` says what lies in
the folder of a run.
"""
