"""Parts of Transformers: plain functions, and modules that hold parameters.

Every part is built once, outside any module scope; a parent holds its parts as
fields and names the copies it uses. Activations carry the compute dtype, which
the embedder sets; parameters are float32 and are cast where they are used.
"""
