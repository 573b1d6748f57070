"""SuperGLUE with a sentinel that asks for the answer, named as in t5.

'boolq passage: P question: Q <extra_id_0>', '<extra_id_0> True'
"""

import seqio

from tasks.benchmarks import definite_pronouns as _definite_pronouns  # noqa: F401
from tasks.benchmarks import super_glue as _super_glue  # noqa: F401 (registers them)
from tasks.formats.sentinels import with_sentinels

seqio.TaskRegistry.add(
  "super_glue_boolq_v102_1_sentinel", **with_sentinels("super_glue_boolq_v102")
)
seqio.TaskRegistry.add(
  "super_glue_cb_v102_1_sentinel", **with_sentinels("super_glue_cb_v102")
)
seqio.TaskRegistry.add(
  "super_glue_copa_v102_1_sentinel", **with_sentinels("super_glue_copa_v102")
)
seqio.TaskRegistry.add(
  "super_glue_multirc_v102_1_sentinel",
  **with_sentinels("super_glue_multirc_v102"),
)
seqio.TaskRegistry.add(
  "super_glue_record_v102_1_sentinel",
  **with_sentinels("super_glue_record_v102"),
)
seqio.TaskRegistry.add(
  "super_glue_rte_v102_1_sentinel", **with_sentinels("super_glue_rte_v102")
)
seqio.TaskRegistry.add(
  "super_glue_wic_v102_1_sentinel", **with_sentinels("super_glue_wic_v102")
)
seqio.TaskRegistry.add(
  "super_glue_axb_v102_1_sentinel", **with_sentinels("super_glue_axb_v102")
)
seqio.TaskRegistry.add(
  "super_glue_axg_v102_1_sentinel", **with_sentinels("super_glue_axg_v102")
)
seqio.TaskRegistry.add(
  "super_glue_wsc_v102_simple_1_sentinel_train",
  **with_sentinels("super_glue_wsc_v102_simple_train"),
)
seqio.TaskRegistry.add(
  "super_glue_wsc_v102_simple_1_sentinel_eval",
  **with_sentinels("super_glue_wsc_v102_simple_eval"),
)
seqio.TaskRegistry.add(
  "dpr_v001_simple_1_sentinel", **with_sentinels("dpr_v001_simple")
)
