"""Dot-product attention and its gradients by definition, in numpy."""

import numpy as np
import scipy.special


def attention(query, key, value, cotangent, *, mask=None, bias=None, keep=None):
  """Returns the context and the gradients of sum(context * cotangent).

  By name, "scores" those of all scores, [B, H, L, M]. Of the heads of queries,
  neighbours share one of keys. A query that sees nothing has the mean of all
  values.
  """
  query, given = (np.asarray(x, np.float64) for x in (query, cotangent))
  batch, memory, groups, width = key.shape
  shared_by = query.shape[2] // groups
  key, value = (
    np.repeat(np.asarray(x, np.float64), shared_by, axis=2)
    for x in (key, value)
  )
  scores = np.einsum("blhk,bmhk->bhlm", query, key)
  if bias is not None:
    scores = scores + bias
  seen = True if mask is None else mask
  keep = 1.0 if keep is None else np.asarray(keep, np.float64)
  weights = scipy.special.softmax(np.where(seen, scores, -1e10), axis=-1)
  # Of the weights, then of the scores.
  gradient = keep * np.einsum("blhk,bmhk->bhlm", given, value)
  gradient = gradient - np.sum(weights * gradient, axis=-1, keepdims=True)
  gradient = np.where(seen, weights * gradient, 0)
  found = {
    "context": np.einsum("bhlm,bmhk->blhk", keep * weights, value),
    "query": np.einsum("bhlm,bmhk->blhk", gradient, key),
    "key": np.einsum("bhlm,blhk->bmhk", gradient, query),
    "value": np.einsum("bhlm,blhk->bmhk", keep * weights, given),
    "scores": gradient,
  }
  by_group = batch, memory, groups, shared_by, width
  for name in ("key", "value"):
    found[name] = found[name].reshape(by_group).sum(axis=3)
  return found
