"""Registration of all tasks and mixtures, the user's included."""

import contextlib
import importlib
import os
import sys

from transformer_zoo.data import user_modules
from transformer_zoo.data.storage import catalogue
from transformer_zoo.errors import UserError


def register_tasks(data_dir: str | None = None) -> None:
  """Imports SeqIO and all tasks and points them to `data_dir`.

  Raises:
    UserError: a folder of `data_dir` does not exist, or a module of the user's
      cannot be imported.
  """
  others_registered = "seqio" in sys.modules
  _import_quietly()
  import seqio  # pylint: disable=g-import-not-at-top

  if data_dir is not None:
    for folder in reversed(data_dir.split(os.pathsep)):
      if not os.path.isdir(folder):
        raise UserError(f"The data folder {folder!r} does not exist.")
      tfds_dir = os.path.join(folder, "tfds")
      if os.path.isdir(tfds_dir):
        seqio.set_tfds_data_dir_override(tfds_dir)
    os.environ["ZOO_DATA_DIR"] = data_dir
  for package in ("tasks", "mixtures"):
    importlib.import_module(package)
  user_modules.import_all()
  if not others_registered and catalogue.load() is None:
    catalogue.save(seqio.TaskRegistry, seqio.MixtureRegistry)


def _import_quietly() -> None:
  """Imports TensorFlow and SeqIO without their start-up lines or accelerators.

  TensorFlow writes some lines from C++ before it reads its settings, so the
  file descriptor of stderr is away during the imports; an exception still has
  its traceback.
  """
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  sys.stderr.flush()
  saved = os.dup(2)
  try:
    with open(os.devnull, "wb") as nowhere:
      os.dup2(nowhere.fileno(), 2)
    import tensorflow as tf  # pylint: disable=g-import-not-at-top

    with contextlib.suppress(RuntimeError):  # devices are in use already
      tf.config.set_visible_devices([], "GPU")
      tf.config.set_visible_devices([], "TPU")
    tf.constant(0)  # the first operation writes lines as well
  finally:
    os.dup2(saved, 2)
    os.close(saved)
