"""Fine-tuning that leaves a model as it is, or most of it: docs/peft.md."""
