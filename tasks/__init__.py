"""The SeqIO tasks: importing this package registers all of them."""

from tasks import definite_pronouns as _definite_pronouns  # noqa: F401
from tasks import glue as _glue  # noqa: F401
from tasks import super_glue as _super_glue  # noqa: F401
from tasks import unlabelled_text as _unlabelled_text  # noqa: F401
from tasks.miniature import corpus as _miniature_corpus  # noqa: F401
from tasks.miniature import supervised as _miniature_supervised  # noqa: F401
