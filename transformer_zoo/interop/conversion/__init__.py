"""`zoo convert`: checkpoints between Hugging Face, T5X and our own runs.

Imports the formats, `config`, `modules`, `peft` and the run folders of `runs`;
training imports none of it. Begin with `convert.py`; `sources.py` opens what is
read, `target.py` and `converted_run.py` and `exported_directory.py` write, and
`tokenizer_files.py` and `generation_config.py` carry what lies beside weights.
"""
