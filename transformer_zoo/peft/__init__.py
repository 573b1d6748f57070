"""Parameter-efficient fine-tuning: other parts, and what of a model is trained."""
