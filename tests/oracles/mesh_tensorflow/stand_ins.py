"""Mesh TensorFlow, importable beside a TensorFlow without estimators.

It is of 2022 and imports estimators and parts of the TPU support that
TensorFlow has dropped since. No layer uses them: modules stand in for them
whose every attribute is such a module again. Import this before it.
"""

import sys
import types

import tensorflow.compat.v1 as tf
from tensorflow.python import tpu
from tensorflow.python.framework import ops


class _StandIn(types.ModuleType):
  """A module of any name, which can be called and inherited from too."""

  def __getattr__(self, name):
    if name.startswith("__"):
      raise AttributeError(name)
    return _StandIn(name)

  def __call__(self, *arguments, **keywords):
    return self

  def __mro_entries__(self, bases):
    return (object,)


tf.disable_v2_behavior()
for _module in ("tensorflow", "tensorflow.compat.v1"):
  sys.modules[_module].estimator = _StandIn("estimator")
for _name in ("tpu_config", "tpu_estimator"):
  _module = _StandIn(_name)
  setattr(tpu, _name, _module)
  sys.modules[f"tensorflow.python.tpu.{_name}"] = _module
ops.register_dense_tensor_like_type = lambda kind: None
ops.register_tensor_conversion_function = tf.register_tensor_conversion_function
