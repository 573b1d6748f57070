"""`zoo convert`: checkpoints between Hugging Face, T5X and our own runs.

Imports `checkpoints`, the formats, `config`, `modules` and `peft`; training
imports none of it. Begin with `convert.py`; `sources.py` opens what is read,
`target.py` and `exported_directory.py` write, `methods.py` and the directories
of `peft` and `adapters` exchange methods of fine-tuning, by their records.
"""
