"""Links: several of ours in one of theirs."""

import weakref

import numpy as np

from transformer_zoo.tensors.lazy_tensors import Tensor
from transformer_zoo.tensors.links import Link
from transformer_zoo.tensors.links import SideBySide
from transformer_zoo.tensors.links import to_ours


def test_the_last_tensor_is_let_go_before_the_next_is_read():
  """One of all layers of T5 XXL has 4 GB."""
  read = []

  def tensor():
    def load():
      assert not [there for there in read if there() is not None]
      array = np.ones((2, 4), np.float32)
      read.append(weakref.ref(array))
      return array

    return Tensor((2, 4), np.dtype(np.float32), load)

  links = [Link(n, (f"{n}/0", f"{n}/1"), SideBySide(2)) for n in ("a", "b")]
  for part in to_ours(links, {"a": tensor(), "b": tensor()}).values():
    np.testing.assert_array_equal(part.read(), np.ones((2, 2)))
  assert len(read) == 2
