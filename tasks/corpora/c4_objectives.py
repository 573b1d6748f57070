"""C4 under every objective, named `c4_v220_` and the file of the objective.

    {'text': 'Thank you for inviting me to your party last week.', ...}
    -> 'Thank you <extra_id_0> <extra_id_0> me to your party last week.',
       'Thank you for inviting me to your party last week.'   (mass_style)

For readers with SeqIO; a run chooses its objective by `CORRUPTION`
(`gin_configs/objectives/`) over any corpus. Those of an encoder have `weights`
(1 where a token is predicted), UniLM also `token_types` and `attention_kind`;
their rows are in T5's vocabulary, whose mask is `<extra_id_0>`. The four
objectives that the t5 package registers are in `c4.py`, those on sentences and
documents in `c4_sentences.py`.
"""

from typing import Any

import seqio

from tasks.corpora import unlabelled_text
from tasks.sources.tfds import PreparedTfdsDataSource
from tasks.vocabulary import T5Vocabulary
from transformer_zoo.corruption import Blanks
from transformer_zoo.corruption import ContextTokens
from transformer_zoo.corruption import Denoiser
from transformer_zoo.corruption import Denoising
from transformer_zoo.corruption import DocumentRotation
from transformer_zoo.corruption import Everything
from transformer_zoo.corruption import FixedNumber
from transformer_zoo.corruption import Fragment
from transformer_zoo.corruption import Iid
from transformer_zoo.corruption import MaskedLanguageModel
from transformer_zoo.corruption import Masking
from transformer_zoo.corruption import MixtureOfDenoisers
from transformer_zoo.corruption import NextTokens
from transformer_zoo.corruption import OwnTokens
from transformer_zoo.corruption import PermutationLanguageModel
from transformer_zoo.corruption import PlacedDenoising
from transformer_zoo.corruption import PreviousTokens
from transformer_zoo.corruption import RandomPrefix
from transformer_zoo.corruption import RandomSpans
from transformer_zoo.corruption import Replacement
from transformer_zoo.corruption import SentencePermutation
from transformer_zoo.corruption import SequenceNoise
from transformer_zoo.corruption import SpanCorruption
from transformer_zoo.corruption import TextInfilling
from transformer_zoo.corruption import TokenDeletion
from transformer_zoo.corruption import TokenMasking
from transformer_zoo.corruption import UnifiedLanguageModel
from transformer_zoo.corruption import WordSpans
from transformer_zoo.corruption.masks.word_spans import geometric_weights

_SPLITS = ("train", "validation")


def _register(name: str, corruption: Any) -> None:
  """Registers C4 under an objective, without EOS in the rows of an encoder."""
  add_eos = corruption.layout != "encoder"
  seqio.TaskRegistry.add(
    name,
    source=PreparedTfdsDataSource(
      "c4/en:2.2.0", splits=("train", "validation")
    ),
    preprocessors=unlabelled_text.steps(corruption),
    output_features={
      "inputs": seqio.Feature(T5Vocabulary(), add_eos, required=False),
      "targets": seqio.Feature(T5Vocabulary(), add_eos),
    },
  )


def _masked(noise: Any, *shares: float, per_span: bool = False) -> Any:
  """A masked language model with shares of masked, random and kept tokens."""
  return MaskedLanguageModel(Masking(noise, Replacement(*shares, per_span)))


# Raffel et al. 2020, tables 2 and 4 to 7.
_register("c4_v220_lm", Denoising(Everything(), "nothing", "keep"))
_register(
  "c4_v220_bert_style",
  Denoising(Iid(0.15), "noise_token_to_random_token_or_sentinel", "keep"),
)
_register(
  "c4_v220_deshuffling",
  Denoising(Everything(), "permute_noise_tokens", "keep"),
)
_register(
  "c4_v220_mass_style",
  Denoising(Iid(0.15), "noise_token_to_sentinel", "keep"),
)
_register(
  "c4_v220_iid_drop_tokens",
  Denoising(Iid(0.15), "drop_noise_tokens", "drop_nonnoise_tokens"),
)
_register("c4_v220_iid_10", Denoising(Iid(0.1)))
_register("c4_v220_iid_25", Denoising(Iid(0.25)))
_register("c4_v220_iid_50", Denoising(Iid(0.5)))
_register("c4_v220_span_2", SpanCorruption(0.15, 2.0))
_register("c4_v220_span_5", SpanCorruption(0.15, 5.0))
_register("c4_v220_span_10", SpanCorruption(0.15, 10.0))

# Lewis et al. 2020, table 1.
_register("c4_v220_bart_token_masking", SequenceNoise((TokenMasking(0.15),)))
_register("c4_v220_bart_token_deletion", SequenceNoise((TokenDeletion(0.15),)))
_register("c4_v220_bart_text_infilling", SequenceNoise((TextInfilling(),)))
_register(
  "c4_v220_bart_document_rotation", SequenceNoise((DocumentRotation(),))
)
_register(
  "c4_v220_bart_sentence_shuffling", SequenceNoise((SentencePermutation(),))
)
_register(
  "c4_v220_bart_text_infilling_sentence_shuffling",
  SequenceNoise((SentencePermutation(), TextInfilling())),
)

# Song et al. 2019.
_register(
  "c4_v220_mass",
  Denoising(
    Fragment(0.5),
    "noise_token_to_mask_random_or_same_token",
    "drop_nonnoise_tokens",
  ),
)

_register(
  "c4_v220_mass_positions",
  PlacedDenoising(
    Fragment(0.5),
    "noise_token_to_mask_random_or_same_token",
    "drop_nonnoise_tokens",
  ),
)

# Tay et al. 2023, table 1.
_register(
  "c4_v220_ul2",
  MixtureOfDenoisers(
    (
      Denoiser(Denoising(RandomSpans(0.15, 3.0)), mode="[R]"),
      Denoiser(Denoising(RandomSpans(0.15, 8.0)), mode="[R]"),
      Denoiser(
        Denoising(
          RandomPrefix(0.25), "drop_nonnoise_tokens", "drop_noise_tokens"
        ),
        mode="[S]",
      ),
      Denoiser(Denoising(RandomSpans(0.5, 3.0)), mode="[X]"),
      Denoiser(Denoising(RandomSpans(0.5, 8.0)), mode="[X]"),
      Denoiser(Denoising(RandomSpans(0.15, 64.0)), mode="[X]"),
      Denoiser(Denoising(RandomSpans(0.5, 64.0)), mode="[X]"),
    )
  ),
)

# A blank asks for about N words.
_register("c4_v220_blanks", Blanks())

# Dong et al. 2019.
_register("c4_v220_unilm", UnifiedLanguageModel())

# Devlin et al. 2019, section 3.1 and table 8.
_register("c4_v220_bert", _masked(FixedNumber(0.15), 0.8, 0.1, 0.1))
_register("c4_v220_bert_mask_100", _masked(FixedNumber(0.15), 1.0, 0.0, 0.0))
_register(
  "c4_v220_bert_mask_80_random_20", _masked(FixedNumber(0.15), 0.8, 0.2, 0.0)
)
_register(
  "c4_v220_bert_mask_80_same_20", _masked(FixedNumber(0.15), 0.8, 0.0, 0.2)
)
_register(
  "c4_v220_bert_same_20_random_80", _masked(FixedNumber(0.15), 0.0, 0.8, 0.2)
)
_register("c4_v220_bert_random_100", _masked(FixedNumber(0.15), 0.0, 1.0, 0.0))
_register("c4_v220_bert_whole_words", _masked(WordSpans(0.15), 0.8, 0.1, 0.1))

_register("c4_v220_left_to_right", NextTokens())
_register("c4_v220_right_to_left", PreviousTokens())

# Mikolov et al. 2013.
_register("c4_v220_cbow", OwnTokens())
_register("c4_v220_skip_gram", ContextTokens())

# Lan et al. 2020.
_register(
  "c4_v220_albert_ngrams", _masked(WordSpans(0.15, (6, 3, 2)), 0.8, 0.1, 0.1)
)

# Joshi et al. 2020.
_register(
  "c4_v220_spanbert",
  _masked(
    WordSpans(0.15, geometric_weights(0.2, 10), cut_last=True),
    *(0.8, 0.1, 0.1),
    per_span=True,
  ),
)

# Yang et al. 2019.
_register("c4_v220_xlnet", PermutationLanguageModel())

# Liu et al. 2019.
_register(
  "c4_v220_roberta",
  _masked(FixedNumber(0.15, random_rounding=True), 0.8, 0.1, 0.1),
)

# Clark et al. 2020: examples for the generator.
_register("c4_v220_electra", _masked(FixedNumber(0.15), 0.85, 0.0, 0.15))
_register("c4_v220_electra_large", _masked(FixedNumber(0.25), 0.85, 0.0, 0.15))
# He et al. 2023, likewise.
_register("c4_v220_deberta_v3", _masked(FixedNumber(0.15), 1.0, 0.0, 0.0))
