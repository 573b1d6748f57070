"""Runs: training, evaluation and inference, wired together by gin.

Imports every room but `precompile`, `studies`, `curves` and `cli`. Begin with
`settings.py`, the one definition of a training run, and `train.py`; then read
`evaluate.py` and `infer.py`. `run_folder.py` fills the folder of a run.
Rooms: `answers/`, `loading/`, `analysis/`.
"""
