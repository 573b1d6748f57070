"""Fine-tuning of a few parameters: methods that leave a model as it is.

Imports modules, and of `data` vocabularies and rows with prompts. Begin with
`method.py` (the record of a method, from which what is trained follows) and
`substitution.py` (a part in the place of another); each method is a file
(`lora.py` is the model). `trainable.py` chooses parameters, `merging.py` takes
methods into their base. docs/guides/peft.md is the guide.
"""
