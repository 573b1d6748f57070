"""Attention: the module, its kernels, the cache and the masks.

Imports `axes` and the linear parts of `modules`. Begin with `attention.py`
(projections and heads), then `dot_product.py` (the reference mathematics);
`kernels.py` chooses among the fused kernels and `chunked.py`.
"""
