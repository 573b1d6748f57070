"""The SeqIO mixtures: importing this package registers all of them."""

from mixtures import glue as _glue  # noqa: F401
from mixtures import miniature as _miniature  # noqa: F401
