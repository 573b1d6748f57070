"""Fine-tuning of a few parameters: methods that leave a model as it is.

Imports modules, tensors, and of `data` vocabularies and rows with prompts.
Begin with `method.py` (the record of a method, from which all else follows) and
`substitution.py` (a part in the place of another); each method is a file, of
which `ia3.py` is a short one. `trainable.py` chooses parameters, `merging.py`
takes methods into their base, `exchange.py` is what directories of other
libraries are to a method. docs/guides/add_a_method.md adds one.
"""
