"""transformer_zoo: controlled experiments on how Transformers transfer."""

__version__ = "0.1.0"
