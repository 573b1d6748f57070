"""Fine-tuning of a few parameters: adapters, substitution, trainable subsets.

Imports modules and architectures. Begin with `substitution.py` (a part in the
place of another) and `trainable.py` (which parameters are trained);
docs/guides/peft.md is the guide.
"""
