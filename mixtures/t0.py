"""T0's mixtures of prompted sets (Sanh et al. 2022), and miniature ones.

A set of more than 500,000 examples counts as 500,000, divided among its
templates; of a smaller one every template counts all examples (section 5;
bigscience-workshop/t-zero, `seqio_tasks/tasks.py`). `t0_held_out` is what
nothing is trained on: four types of tasks, of which a model is reported by the
median over the templates of a set.
"""

from collections.abc import Sequence

import seqio

from mixtures.available import AvailableMixture
from tasks.prompts import miniature_suite as _miniature  # noqa: F401
from tasks.prompts import t0 as _t0  # noqa: F401 (registers what is mixed)
from transformer_zoo.data.mixing import TemplatesProportional


def _templates(
  mixtures: Sequence[str], maximum: float = 500_000, first: int | None = None
) -> list[tuple[str, TemplatesProportional]]:
  """Returns the templates of prompted sets with their rates.

  Args:
    mixtures: The mixtures of the sets.
    maximum: The examples beyond which a set is divided among its templates.
    first: The number of templates of each set; None for all.
  """
  members = []
  for mixture in mixtures:
    names = list(seqio.MixtureRegistry.get(mixture).rate_per_task_name)[:first]
    rate = TemplatesProportional(maximum=maximum, templates=len(names))
    members += [(name, rate) for name in names]
  return members


_CHOICES = (
  "prompted_commonsense_qa",
  "prompted_dream",
  "prompted_quail",
  "prompted_quartz",
  "prompted_social_i_qa",
  "prompted_wiqa",
  "prompted_cosmos_qa",
  "prompted_qasc",
  "prompted_quarel",
  "prompted_sciq",
  "prompted_wiki_hop",
)
_EXTRACTION = (
  "prompted_adversarial_qa_dbert",
  "prompted_adversarial_qa_dbidaf",
  "prompted_adversarial_qa_droberta",
  "prompted_quoref",
  "prompted_ropes",
  "prompted_duorc_self",
  "prompted_duorc_paraphrase",
)
_CLOSED_BOOK = ("prompted_hotpot_qa", "prompted_wiki_qa")
_SENTIMENT = (
  "prompted_amazon_polarity",
  "prompted_app_reviews",
  "prompted_imdb",
  "prompted_rotten_tomatoes",
  "prompted_yelp_review_full",
)
_TOPICS = ("prompted_ag_news", "prompted_dbpedia_14", "prompted_trec")
_STRUCTURE = ("prompted_common_gen", "prompted_wiki_bio")
_SUMMARIES = (
  "prompted_cnn_dailymail",
  "prompted_gigaword",
  "prompted_multi_news",
  "prompted_samsum",
  "prompted_xsum",
)
_PARAPHRASES = ("prompted_mrpc", "prompted_paws", "prompted_qqp")
_T0 = (
  *_CHOICES,
  *_EXTRACTION,
  *_CLOSED_BOOK,
  *_SENTIMENT,
  *_TOPICS,
  *_STRUCTURE,
  *_SUMMARIES,
  *_PARAPHRASES,
)
# What GPT-3 was evaluated on, and SuperGLUE without inference.
_PLUS = (
  "prompted_ai2_arc_challenge",
  "prompted_ai2_arc_easy",
  "prompted_openbookqa",
  "prompted_race_high",
  "prompted_race_middle",
  "prompted_piqa",
  "prompted_hellaswag",
  "prompted_squad_v2",
  "prompted_trivia_qa",
  "prompted_web_questions",
)
_PLUS_PLUS = (
  "prompted_boolq",
  "prompted_copa",
  "prompted_multirc",
  "prompted_record",
  "prompted_wic",
  "prompted_wsc",
)
_HELD_OUT = (
  "prompted_rte",
  "prompted_cb",
  "prompted_anli_r1",
  "prompted_anli_r2",
  "prompted_anli_r3",
  "prompted_wsc",
  "prompted_winogrande",
  "prompted_copa",
  "prompted_story_cloze",
  "prompted_hellaswag",
  "prompted_wic",
)

seqio.MixtureRegistry.add("t0_train", _templates(_T0))
seqio.MixtureRegistry.add("t0_plus_train", _templates(_T0 + _PLUS))
seqio.MixtureRegistry.add(
  "t0_plus_plus_train", _templates(_T0 + _PLUS + _PLUS_PLUS)
)
# The first template of each set alone (section 6.2).
seqio.MixtureRegistry.add("t0_train_one_template", _templates(_T0, first=1))
# What is on disk of T0's training sets.
seqio.MixtureRegistry.add(
  "t0_train_available", _templates(_T0), mixture_cls=AvailableMixture
)
# Nothing is trained on: the rates do not matter.
seqio.MixtureRegistry.add("t0_held_out", _HELD_OUT, default_rate=1.0)
seqio.MixtureRegistry.add(
  "t0_held_out_available",
  _HELD_OUT,
  default_rate=1.0,
  mixture_cls=AvailableMixture,
)

# The miniature tasks have 4,000 examples or 500.
_MINI = (
  "prompted_mini_sst2",
  "prompted_mini_mrpc",
  "prompted_mini_cola",
  "prompted_mini_squad",
  "prompted_mini_race",
  "prompted_mini_summarize",
)
_MINI_HELD_OUT = (
  "prompted_mini_nli",
  "prompted_mini_wsc",
  "prompted_mini_copa",
  "prompted_mini_wic",
)
seqio.MixtureRegistry.add("miniature_t0", _templates(_MINI, maximum=2_000))
seqio.MixtureRegistry.add(
  "miniature_t0_one_template", _templates(_MINI, maximum=2_000, first=1)
)
seqio.MixtureRegistry.add(
  "miniature_t0_half_the_tasks", _templates(_MINI[:3], maximum=2_000)
)
seqio.MixtureRegistry.add(
  "miniature_t0_held_out", _MINI_HELD_OUT, default_rate=1.0
)
