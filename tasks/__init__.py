"""The SeqIO tasks: importing this package registers all of them."""

from tasks import c4 as _c4  # noqa: F401
from tasks import closed_book as _closed_book  # noqa: F401
from tasks import cnn_dailymail as _cnn_dailymail  # noqa: F401
from tasks import conll2003 as _conll2003  # noqa: F401
from tasks import definite_pronouns as _definite_pronouns  # noqa: F401
from tasks import flores200 as _flores200  # noqa: F401
from tasks import glue as _glue  # noqa: F401
from tasks import hellaswag as _hellaswag  # noqa: F401
from tasks import multi30k as _multi30k  # noqa: F401
from tasks import prompted_benchmarks as _prompted_benchmarks  # noqa: F401
from tasks import race as _race  # noqa: F401
from tasks import samsum as _samsum  # noqa: F401
from tasks import sci_tail as _sci_tail  # noqa: F401
from tasks import snli as _snli  # noqa: F401
from tasks import squad as _squad  # noqa: F401
from tasks import super_glue as _super_glue  # noqa: F401
from tasks import super_glue_sentinel as _super_glue_sentinel  # noqa: F401
from tasks import swag as _swag  # noqa: F401
from tasks import trivia_qa as _trivia_qa  # noqa: F401
from tasks import unlabelled_text as _unlabelled_text  # noqa: F401
from tasks import wikipedia as _wikipedia  # noqa: F401
from tasks import wmt as _wmt  # noqa: F401
from tasks import xsum as _xsum  # noqa: F401
from tasks.miniature import corpus as _miniature_corpus  # noqa: F401
from tasks.miniature import supervised as _miniature_supervised  # noqa: F401
