"""Your own data as tasks: rows, prompts and few-shot forms, in one call.

Imports SeqIO, `tasks.sources` and metrics. Begin with `text_to_text.py`, then
`prompted.py` (natural prompts, as T0's) and `few_shot.py`.
"""
