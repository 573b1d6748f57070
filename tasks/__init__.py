"""The SeqIO tasks: importing this package registers all of them."""

import sys as _sys

from tasks import miniature_corpora as _miniature_corpora  # noqa: F401
from tasks.benchmarks import closed_book as _closed_book  # noqa: F401
from tasks.benchmarks import conll2003 as _conll2003  # noqa: F401
from tasks.benchmarks import convai2 as _convai2  # noqa: F401
from tasks.benchmarks import definite_pronouns as _definite_pronouns  # noqa: F401
from tasks.benchmarks import eli5 as _eli5  # noqa: F401
from tasks.benchmarks import glue as _glue  # noqa: F401
from tasks.benchmarks import gpt_sets as _gpt_sets  # noqa: F401
from tasks.benchmarks import hellaswag as _hellaswag  # noqa: F401
from tasks.benchmarks import natural_questions as _natural_questions  # noqa: F401
from tasks.benchmarks import race as _race  # noqa: F401
from tasks.benchmarks import sci_tail as _sci_tail  # noqa: F401
from tasks.benchmarks import sentence_embeddings as _embeddings  # noqa: F401
from tasks.benchmarks import snli as _snli  # noqa: F401
from tasks.benchmarks import squad as _squad  # noqa: F401
from tasks.benchmarks import super_glue as _super_glue  # noqa: F401
from tasks.benchmarks import super_glue_sentinel as _super_glue_sentinel  # noqa: F401
from tasks.benchmarks import swag as _swag  # noqa: F401
from tasks.benchmarks import trivia_qa as _trivia_qa  # noqa: F401
from tasks.benchmarks import wikisql as _wikisql  # noqa: F401
from tasks.benchmarks.summaries import cnn_dailymail as _cnn_dailymail  # noqa: F401
from tasks.benchmarks.summaries import samsum as _samsum  # noqa: F401
from tasks.benchmarks.summaries import xsum as _xsum  # noqa: F401
from tasks.benchmarks.translation import czeng as _czeng  # noqa: F401
from tasks.benchmarks.translation import flores200 as _flores200  # noqa: F401
from tasks.benchmarks.translation import iwslt14 as _iwslt14  # noqa: F401
from tasks.benchmarks.translation import multi30k as _multi30k  # noqa: F401
from tasks.benchmarks.translation import wmt as _wmt  # noqa: F401
from tasks.corpora import c4 as _c4  # noqa: F401
from tasks.corpora import c4_json_lines as _c4_json_lines  # noqa: F401
from tasks.corpora import c4_objectives as _c4_objectives  # noqa: F401
from tasks.corpora import c4_sentences as _c4_sentences  # noqa: F401
from tasks.corpora import languages as _languages  # noqa: F401
from tasks.corpora import sentence_text as _sentence_text  # noqa: F401
from tasks.corpora import unlabelled_text as _unlabelled_text
from tasks.corpora import wikipedia as _wikipedia  # noqa: F401
from tasks.miniature import corpus as _miniature_corpus  # noqa: F401
from tasks.miniature import forms as _miniature_forms  # noqa: F401
from tasks.miniature import supervised as _miniature_supervised  # noqa: F401
from tasks.miniature.for_decoders import tasks as _for_writers  # noqa: F401
from tasks.miniature.for_encoders import tasks as _for_encoders  # noqa: F401
from tasks.miniature.second_language import tasks as _second_language  # noqa: F401
from tasks.prompts import few_shot_miniature as _few_shot_miniature  # noqa: F401
from tasks.prompts import gpt as _prompts_of_gpt  # noqa: F401
from tasks.prompts import miniature_suite as _miniature_prompts  # noqa: F401
from tasks.prompts import t0 as _prompts_of_t0  # noqa: F401
from tasks.your_data import few_shot as _few_shot
from tasks.your_data import prompted as _prompted
from tasks.your_data import rows as _rows
from tasks.your_data import text_to_text as _text_to_text

# Modules of users may import these from where they stood before the rooms.
_sys.modules |= {
  "tasks.few_shot": _few_shot,
  "tasks.prompted": _prompted,
  "tasks.rows": _rows,
  "tasks.text_to_text": _text_to_text,
  "tasks.unlabelled_text": _unlabelled_text,
}
