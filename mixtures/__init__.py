"""The SeqIO mixtures: importing this package registers all of them."""

from mixtures import closed_book as _closed_book  # noqa: F401
from mixtures import co_training as _co_training  # noqa: F401
from mixtures import flan as _flan  # noqa: F401
from mixtures import glue as _glue  # noqa: F401
from mixtures import miniature as _miniature  # noqa: F401
from mixtures import real_small as _real_small  # noqa: F401
from mixtures import sentence_embeddings as _embeddings  # noqa: F401
from mixtures import super_glue as _super_glue  # noqa: F401
from mixtures import supervised as _supervised  # noqa: F401
from mixtures import t0 as _t0  # noqa: F401
from mixtures import zero_shot as _zero_shot  # noqa: F401
