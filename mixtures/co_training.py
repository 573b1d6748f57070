"""Multi-task training: supervised tasks together with C4's span corruption.

Raffel et al. 2020, section 3.5.2; the shares of Table 11 have mixtures of their
own. In all of them the limit K clips every task. The released t5 code gives
GLUE and SuperGLUE constant rates, which its K does not clip:
`all_proportional_unclipped_glue` does the same.
"""

import seqio

from mixtures import counts
from mixtures.composition import leave_out
from mixtures.supervised import COUNTS
from mixtures.supervised import TASKS
from mixtures.supervised import TWICE
from transformer_zoo.data.mixing import Equal
from transformer_zoo.data.mixing import ExamplesProportional

C4 = "c4_v020_unsupervised"
# t5's `rate_unsupervised`: examples that C4 counts as. The released models had
# 710,000 (small), 2.62 M (base), 8.66 M (large), 33.5 M (3B), 133 M (11B).
C4_RATE = 1_000_000
_ALL = (*TASKS, C4)
_BY_SIZE = ExamplesProportional(counts=COUNTS, halved=TWICE)

# GLUE, SuperGLUE and SQuAD by their sizes beside C4; RTE counts twice, as in
# the released code.
seqio.MixtureRegistry.add(
  "en_mix",
  [
    (C4, C4_RATE),
    *counts.GLUE,
    *counts.SUPER_GLUE,
    "squad_v010_allanswers",
  ],
  default_rate=ExamplesProportional(),
)

# Table 11, in the order of its rows.
seqio.MixtureRegistry.add("all_equal", _ALL, default_rate=Equal())
seqio.MixtureRegistry.add(
  "all_proportional_2_to_16",
  _ALL,
  default_rate=ExamplesProportional(2**16, counts=COUNTS, halved=TWICE),
)
seqio.MixtureRegistry.add(
  "all_proportional_2_to_17",
  _ALL,
  default_rate=ExamplesProportional(2**17, counts=COUNTS, halved=TWICE),
)
seqio.MixtureRegistry.add(
  "all_proportional_2_to_18",
  _ALL,
  default_rate=ExamplesProportional(2**18, counts=COUNTS, halved=TWICE),
)
seqio.MixtureRegistry.add(
  "all_proportional_2_to_19",
  _ALL,
  default_rate=ExamplesProportional(2**19, counts=COUNTS, halved=TWICE),
)
seqio.MixtureRegistry.add(
  "all_proportional_2_to_20",
  _ALL,
  default_rate=ExamplesProportional(2**20, counts=COUNTS, halved=TWICE),
)
seqio.MixtureRegistry.add(
  "all_proportional_2_to_21",
  _ALL,
  default_rate=ExamplesProportional(2**21, counts=COUNTS, halved=TWICE),
)
seqio.MixtureRegistry.add(
  "all_temperature_2",
  _ALL,
  default_rate=ExamplesProportional(2**21, 2.0, counts=COUNTS, halved=TWICE),
)
seqio.MixtureRegistry.add(
  "all_temperature_4",
  _ALL,
  default_rate=ExamplesProportional(2**21, 4.0, counts=COUNTS, halved=TWICE),
)
seqio.MixtureRegistry.add(
  "all_temperature_8",
  _ALL,
  default_rate=ExamplesProportional(2**21, 8.0, counts=COUNTS, halved=TWICE),
)

# Without a limit, as the t5 package registers it.
seqio.MixtureRegistry.add("all_proportional", _ALL, default_rate=_BY_SIZE)
# K = 2^19 for C4, SQuAD, CNN/Daily Mail and WMT alone.
seqio.MixtureRegistry.add(
  "all_proportional_unclipped_glue",
  _ALL,
  default_rate=ExamplesProportional(
    2**19, counts=COUNTS, halved=TWICE, unclipped=tuple(COUNTS)
  ),
)
seqio.MixtureRegistry.add(
  "all_mix", [(C4, C4_RATE), *TASKS], default_rate=_BY_SIZE
)

# Leave-one-out multi-task training (section 3.5.3): fine-tune on what is left
# out. Where one of GLUE and SuperGLUE is left out, RTE is there once.
_HALVED = dict.fromkeys(_ALL, _BY_SIZE)
_WHOLE = dict.fromkeys(_ALL, ExamplesProportional(counts=COUNTS))
seqio.MixtureRegistry.add(
  "leave_one_out_glue_v002_proportional", leave_out(_WHOLE, counts.GLUE)
)
seqio.MixtureRegistry.add(
  "leave_one_out_super_glue_v102_proportional",
  leave_out(_WHOLE, counts.SUPER_GLUE),
)
seqio.MixtureRegistry.add(
  "leave_one_out_cnn_dailymail_v002",
  leave_out(_HALVED, ["cnn_dailymail_v002"]),
)
seqio.MixtureRegistry.add(
  "leave_one_out_squad_v010_allanswers",
  leave_out(_HALVED, ["squad_v010_allanswers"]),
)
seqio.MixtureRegistry.add(
  "leave_one_out_wmt_t2t_ende_v003",
  leave_out(_HALVED, ["wmt_t2t_ende_v003"]),
)
seqio.MixtureRegistry.add(
  "leave_one_out_wmt15_enfr_v003", leave_out(_HALVED, ["wmt15_enfr_v003"])
)
seqio.MixtureRegistry.add(
  "leave_one_out_wmt16_enro_v003", leave_out(_HALVED, ["wmt16_enro_v003"])
)

# The same at K = 2^19, by the studies' names of groups (table 12).
_LIMITED = ExamplesProportional(2**19, counts=COUNTS, halved=TWICE)
_LIMITED_WHOLE = ExamplesProportional(2**19, counts=COUNTS)
seqio.MixtureRegistry.add(
  "all_without_GLUE",
  leave_out(dict.fromkeys(_ALL, _LIMITED_WHOLE), counts.GLUE),
)
seqio.MixtureRegistry.add(
  "all_without_SGLUE",
  leave_out(dict.fromkeys(_ALL, _LIMITED_WHOLE), counts.SUPER_GLUE),
)
seqio.MixtureRegistry.add(
  "all_without_CNNDM",
  leave_out(dict.fromkeys(_ALL, _LIMITED), ["cnn_dailymail_v002"]),
)
seqio.MixtureRegistry.add(
  "all_without_SQuAD",
  leave_out(dict.fromkeys(_ALL, _LIMITED), ["squad_v010_allanswers"]),
)
seqio.MixtureRegistry.add(
  "all_without_EnDe",
  leave_out(dict.fromkeys(_ALL, _LIMITED), ["wmt_t2t_ende_v003"]),
)
seqio.MixtureRegistry.add(
  "all_without_EnFr",
  leave_out(dict.fromkeys(_ALL, _LIMITED), ["wmt15_enfr_v003"]),
)
seqio.MixtureRegistry.add(
  "all_without_EnRo",
  leave_out(dict.fromkeys(_ALL, _LIMITED), ["wmt16_enro_v003"]),
)
