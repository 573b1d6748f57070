"""Fine-tuning of a few parameters: methods that leave a model as it is.

Imports modules, and of `data` vocabularies and rows with prompts. Begin with
`substitution.py` (a part in the place of another) and `trainable.py` (which
parameters are trained); each method is a file (`projections.py` has LoRA, IA3
and biases), `merging.py` takes methods into their base. docs/guides/peft.md is
the guide.
"""
