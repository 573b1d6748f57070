"""Mixtures for sentence embeddings: what is learned, and STS-B that scores it.

STS-B has the rate 0: no row of it is trained on, and after some steps the
cosines of its validation pairs are compared with their similarities.
"""

import seqio

from mixtures import counts
from tasks.benchmarks import glue as _glue  # noqa: F401 (registers what is mixed)
from tasks.benchmarks import sentence_embeddings as _pairs  # noqa: F401
from tasks.benchmarks import snli as _snli  # noqa: F401

_SCORED = ("glue_stsb_v002", 0)

# Reimers and Gurevych 2019, section 3.1; SNLI has 549,367 labelled rows.
seqio.MixtureRegistry.add(
  "nli_stsb",
  [
    ("snli_v110", 549_367),
    ("glue_mnli_v002", counts.GLUE["glue_mnli_v002"]),
    _SCORED,
  ],
)
seqio.MixtureRegistry.add("simcse_wiki_stsb", [("simcse_wiki", 1), _SCORED])
seqio.MixtureRegistry.add("simcse_nli_stsb", [("simcse_nli", 1), _SCORED])
seqio.MixtureRegistry.add("community_qa_stsb", [("community_qa", 1), _SCORED])
