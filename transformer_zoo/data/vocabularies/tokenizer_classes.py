"""The rules of the tokenizer classes of `transformers`.

The files of many directories have pieces alone; lower case, accents, spaces and
special pieces are matters of the class that reads them. A class applies its
rules to the pieces of a tokenizer.json too, whatever that says of them. Source:
`models/*/tokenization_*.py` and `convert_slow_tokenizer.py` of version 5.23,
whose ids are those here.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
import os
from typing import Any

from transformer_zoo import schemas
from transformer_zoo.data.vocabularies import files
from transformer_zoo.data.vocabularies import tokenizer
from transformer_zoo.errors import UserError

Options = Mapping[str, Any]
# A normalizer and a pre-tokenizer; either may be None.
Rules = tuple[Any, Any]
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
# Options that no class here makes other ids of: they are of decoding, offsets,
# lengths, padding, or of where the files came from.
_WITHOUT_EFFECT = frozenset(
  # The first one is longer than a line.
  ["clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"]
  + """
  _commit_hash _name_or_path add_special_tokens auto_map backend bos_token_id
  cache_dir chat_control_tokens chat_template clean_up_tokenization_spaces
  cls_token_id cls_token_type_id commit_hash config device device_map
  do_basic_tokenize do_subword_tokenize do_word_tokenize eos_token_id errors
  fast_tokenizer_files fix_mistral_regex from_slow full_tokenizer_file
  init_inputs is_fast is_local is_split_into_words lang_codes language
  language_codes legacy legacy_behaviour local_files_only mask_token_id
  max_len max_length max_seq_length merges_file model_input_names
  model_max_length model_type name_or_path never_split pad_to_multiple_of
  pad_token_id pad_token_type_id padding padding_side processor_class proxies
  remove_space response_schema response_template return_attention_mask
  return_length return_offsets_mapping return_special_tokens_mask
  return_tensors return_token_type_ids revision sep_token_id
  slow_tokenizer_class source_spm sp_model_kwargs special_tokens_map_file
  stride target_spm task_specific_params tgt_lang token tokenizer_class
  tokenizer_file tokenizer_type tokenizer_version torch_dtype
  transformers_version trim_offsets truncation truncation_side
  truncation_strategy trust_remote_code unk_id unk_token_id use_auth_token
  use_cache use_default_system_prompt use_fast verbose version vocab_file
  vocab_size vocab_type wordpieces_prefix
  """.split()
)
# What every class follows; `src_lang` is of what stands around a text.
_OF_EVERY_CLASS = (
  "add_bos_token",
  "add_eos_token",
  "added_tokens_decoder",
  "additional_special_tokens",
  "extra_special_tokens",
  "model_specific_special_tokens",
  "split_special_tokens",
)
_LANGUAGES = """
  ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ
  ko_KR lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN
  """.split()
_MORE_LANGUAGES = """
  af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN
  pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES
  sl_SI
  """.split()
# `models/qwen2/tokenization_qwen2.py`.
_QWEN2_WORDS = (
  r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
  r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclasses.dataclass(frozen=True)
class TokenizerClass:
  """One class.

  Attributes:
    model: The type of its model, as the library names it: 'WordPiece', 'BPE' or
      'Unigram'.
    rules: The normalizer and the pre-tokenizer for options and the character
      map of a SentencePiece model, which may be None.
    options: The options that decide ids, with their defaults.
    pieces: Its special pieces by role.
    mask_takes_space: Whether the mask takes the spaces before it.
    is_plain: Whether its files without options are read as files that name no
      class are.
    arrange: The function from the pieces and scores of a SentencePiece model,
      the special pieces and the options to the pieces and scores in the order
      of their ids.
    unknown: The id of the unknown piece among arranged pieces, for the name of
      that piece and the id in the SentencePiece model.
    further: The further special pieces, for the options and those that the
      SentencePiece model has or special_tokens_map.json states, or None.
  """

  model: str
  rules: Callable[[Options, bytes | None], Rules]
  options: Options
  pieces: Mapping[str, str]
  mask_takes_space: bool = False
  is_plain: bool = False
  arrange: Callable[..., list[tuple[str, float]]] = (
    lambda pieces, special, options: list(pieces)
  )
  unknown: Callable[..., int] = lambda pieces, piece, own: own
  further: Callable[[Options, Sequence[Any] | None], Sequence[Any]] = (
    lambda options, own: own or ()
  )


def _content(piece: Any) -> str:
  return piece["content"] if isinstance(piece, dict) else piece


def _of_words(options: Options, charsmap: bytes | None) -> Rules:
  """BERT's cleaning, and words between spaces and punctuation."""
  from tokenizers import normalizers
  from tokenizers import pre_tokenizers

  del charsmap
  return normalizers.BertNormalizer(
    clean_text=options.get("clean_text", True),
    handle_chinese_chars=options.get("tokenize_chinese_chars", True),
    strip_accents=options.get("strip_accents"),
    lowercase=options.get("do_lower_case", True),
  ), pre_tokenizers.BertPreTokenizer()


def _of_bytes(options: Options, charsmap: bytes | None) -> Rules:
  from tokenizers import pre_tokenizers

  del charsmap
  return None, pre_tokenizers.ByteLevel(
    add_prefix_space=bool(options["add_prefix_space"])
  )


def _of_qwen2(options: Options, charsmap: bytes | None) -> Rules:
  from tokenizers import normalizers
  from tokenizers import pre_tokenizers
  from tokenizers import Regex

  del charsmap
  return normalizers.NFC(), pre_tokenizers.Sequence(
    [
      pre_tokenizers.Split(Regex(_QWEN2_WORDS), "isolated"),
      pre_tokenizers.ByteLevel(
        add_prefix_space=bool(options["add_prefix_space"]), use_regex=False
      ),
    ]
  )


def _spaces(scheme: str) -> Any:
  from tokenizers import pre_tokenizers

  return pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme)


def _between_spaces(options: Options) -> Any:
  """Words between any white space, which a ▁ stands before."""
  from tokenizers import pre_tokenizers

  scheme = "always" if options.get("add_prefix_space", True) else "never"
  return pre_tokenizers.Sequence(
    [pre_tokenizers.WhitespaceSplit(), _spaces(scheme)]
  )


def _mapped(charsmap: bytes | None) -> list[Any]:
  from tokenizers import normalizers

  return [normalizers.Precompiled(charsmap)] if charsmap else []


def _of_albert(options: Options, charsmap: bytes | None) -> Rules:
  """Plain quotes, no accents and, by option, lower case."""
  from tokenizers import normalizers

  steps = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
  if not options.get("keep_accents"):
    steps += [normalizers.NFKD(), normalizers.StripAccents()]
  if options["do_lower_case"]:
    steps.append(normalizers.Lowercase())
  steps += _mapped(charsmap)
  return normalizers.Sequence(steps), _between_spaces(options)


def _of_roberta_xlm(options: Options, charsmap: bytes | None) -> Rules:
  mapped = _mapped(charsmap)
  return mapped[0] if mapped else None, _between_spaces(options)


def _of_mbart(options: Options, charsmap: bytes | None) -> Rules:
  del charsmap  # The class passes it over.
  return None, _between_spaces(options)


def _of_single_spaces(options: Options, charsmap: bytes | None) -> Rules:
  """The text whole, with one space in the place of several."""
  from tokenizers import normalizers
  from tokenizers import Regex

  del options
  steps = [*_mapped(charsmap), normalizers.Replace(Regex(" {2,}"), " ")]
  return normalizers.Sequence(steps), _spaces("always")


def _of_pegasus(options: Options, charsmap: bytes | None) -> Rules:
  from tokenizers import normalizers
  from tokenizers import Regex

  if charsmap:
    return _of_single_spaces(options, charsmap)
  steps = [normalizers.Replace(Regex(p), " ") for p in ("\n", " {2,}")]
  return normalizers.Sequence(steps), _spaces("always")


def _of_deberta(options: Options, charsmap: bytes | None) -> Rules:
  from tokenizers import normalizers
  from tokenizers import pre_tokenizers
  from tokenizers import Regex

  del charsmap  # The class passes it over.
  steps = [normalizers.Lowercase()] if options["do_lower_case"] else []
  steps += [
    normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "),
    normalizers.NFC(),
    normalizers.Strip(left=False, right=True),
  ]
  words = []
  if options["split_by_punct"]:
    words.append(pre_tokenizers.Punctuation("isolated"))
  words.append(_spaces("always" if options["add_prefix_space"] else "first"))
  return normalizers.Sequence(steps), pre_tokenizers.Sequence(words)


def _as_fairseq(*behind: str) -> Callable[..., list[tuple[str, float]]]:
  """The order of fairseq's dictionaries: <s>, <pad>, </s>, <unk> first."""

  def arrange(pieces, special, options):
    del options
    begin = special.get("bos") or special["cls"]
    first = (begin, special["pad"], special["eos"], special["unk"])
    last = (*behind, special["mask"])
    return [
      *((piece, 0.0) for piece in first),
      *list(pieces)[3:],
      *((piece, 0.0) for piece in last),
    ]

  return arrange


def _as_camembert(pieces, special, options) -> list[tuple[str, float]]:
  del options
  return [
    ("<s>NOTUSED", 0.0),
    (special["pad"], 0.0),
    ("</s>NOTUSED", 0.0),
    (special["unk"], 0.0),
    ("<unk>NOTUSED", -100.0),
    *list(pieces)[1:],
    (special["mask"], 0.0),
  ]


def _as_pegasus(pieces, special, options) -> list[tuple[str, float]]:
  stated = options["stated"]
  sentence = stated.get("mask_token_sent", "<mask_2>")
  masks = [_content(stated.get("mask_token", "<mask_1>"))]
  masks += [sentence] if sentence not in (None, *masks) else []
  first = (special["pad"], special["eos"], *masks)
  return [
    *((piece, 0.0) for piece in first),
    *((f"<unk_{i}>", -100.0) for i in range(2, options["offset"])),
    *list(pieces)[2:],
  ]


def _further_of_pegasus(options: Options, own: Any) -> list[Any]:
  sentence = options["mask_token_sent"]
  has_it = sentence in map(_content, own or ())
  masks = [] if sentence is None or has_it else [sentence]
  return [*masks, *(f"<unk_{i}>" for i in range(2, options["offset"]))]


_BERT = {
  "unk": "[UNK]",
  "sep": "[SEP]",
  "pad": "[PAD]",
  "cls": "[CLS]",
  "mask": "[MASK]",
}
_ROBERTA = {
  "bos": "<s>",
  "eos": "</s>",
  "sep": "</s>",
  "cls": "<s>",
  "unk": "<unk>",
  "pad": "<pad>",
  "mask": "<mask>",
}
_DEBERTA = {**_BERT, "bos": "[CLS]", "eos": "[SEP]"}
_XLNET = {**_ROBERTA, "sep": "<sep>", "cls": "<cls>"}
_END = "<|endoftext|>"
_OF_BERT = {
  "do_lower_case": True,
  "tokenize_chinese_chars": True,
  "strip_accents": None,
}
_PREFIX = {"add_prefix_space": False}
_BEGUN = {"add_prefix_space": True}
_UNKNOWN_OF_FAIRSEQ = 3
_bert = TokenizerClass("WordPiece", _of_words, _OF_BERT, _BERT, is_plain=True)
_roberta_xlm = TokenizerClass(
  "Unigram",
  _of_roberta_xlm,
  _BEGUN,
  _ROBERTA,
  arrange=_as_fairseq(),
  unknown=lambda pieces, piece, own: _UNKNOWN_OF_FAIRSEQ,
)

CLASSES: Mapping[str, TokenizerClass] = {
  "BertTokenizer": _bert,
  "DistilBertTokenizer": _bert,
  "ConvBertTokenizer": _bert,
  "MPNetTokenizer": TokenizerClass(
    "WordPiece",
    _of_words,
    _OF_BERT,
    {**_ROBERTA, "unk": "[UNK]"},
    mask_takes_space=True,
    is_plain=True,
  ),
  "FunnelTokenizer": TokenizerClass(
    "WordPiece", _of_words, {**_OF_BERT, "clean_text": True}, _XLNET
  ),
  "GPT2Tokenizer": TokenizerClass(
    "BPE", _of_bytes, _PREFIX, {"bos": _END, "eos": _END}, is_plain=True
  ),
  "RobertaTokenizer": TokenizerClass(
    "BPE", _of_bytes, _PREFIX, _ROBERTA, is_plain=True
  ),
  "DebertaTokenizer": TokenizerClass(
    "BPE", _of_bytes, _PREFIX, _DEBERTA, is_plain=True
  ),
  "Qwen2Tokenizer": TokenizerClass(
    "BPE", _of_qwen2, _PREFIX, {"eos": _END, "pad": _END}
  ),
  "OpenAIGPTTokenizer": TokenizerClass("BPE", _of_words, {}, {"unk": "<unk>"}),
  "AlbertTokenizer": TokenizerClass(
    "Unigram",
    _of_albert,
    {"do_lower_case": True, "keep_accents": False, **_BEGUN},
    {**_DEBERTA, "unk": "<unk>", "pad": "<pad>"},
    unknown=lambda pieces, piece, own: 1,
  ),
  "XLNetTokenizer": TokenizerClass(
    # Accents go whatever `keep_accents` says.
    "Unigram",
    _of_albert,
    {"do_lower_case": False},
    _XLNET,
    mask_takes_space=True,
    further=lambda options, own: ("<eop>", "<eod>") if own is None else own,
  ),
  "DebertaV2Tokenizer": TokenizerClass(
    "Unigram",
    _of_deberta,
    {"do_lower_case": False, "split_by_punct": False, **_BEGUN},
    _DEBERTA,
    unknown=lambda pieces, piece, own: (
      pieces.index((piece, 0.0)) if (piece, 0.0) in pieces else own
    ),
  ),
  "XLMRobertaTokenizer": _roberta_xlm,
  "MBartTokenizer": dataclasses.replace(
    _roberta_xlm,
    rules=_of_mbart,
    options={"src_lang": None},
    mask_takes_space=True,
    arrange=_as_fairseq(*_LANGUAGES),
    further=lambda options, own: [
      *_LANGUAGES,
      *(p for p in own or () if _content(p) not in _LANGUAGES),
    ],
  ),
  "MBart50Tokenizer": dataclasses.replace(
    _roberta_xlm,
    rules=_of_single_spaces,
    options={"src_lang": None},
    pieces={role: _ROBERTA[role] for role in ROLES if role != "bos"},
    mask_takes_space=True,
    arrange=_as_fairseq(*_LANGUAGES, *_MORE_LANGUAGES),
    further=lambda options, own: [
      *(own or ()),
      *_LANGUAGES,
      *_MORE_LANGUAGES,
    ],
  ),
  "CamembertTokenizer": TokenizerClass(
    "Unigram",
    _of_roberta_xlm,
    _BEGUN,
    _ROBERTA,
    mask_takes_space=True,
    arrange=_as_camembert,
    unknown=lambda pieces, piece, own: next(
      (i for i, (name, _) in enumerate(pieces) if name == piece), 0
    ),
    further=lambda options, own: (
      ("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED") if own is None else own
    ),
  ),
  "PegasusTokenizer": TokenizerClass(
    "Unigram",
    _of_pegasus,
    {"offset": 103, "mask_token_sent": "<mask_1>"},
    {"pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask_2>"},
    arrange=_as_pegasus,
    unknown=lambda pieces, piece, own: next(
      i for i, (name, _) in enumerate(pieces) if name == piece
    ),
    further=_further_of_pegasus,
  ),
}

# Classes whose files `CLASSES` has no rules for: they are read by
# SentencePiece, as bytes, by Marian's three files.
_READ_OTHERWISE: Mapping[str, Collection[str]] = {
  "T5Tokenizer": ("extra_ids",),
  "MT5Tokenizer": ("extra_ids",),
  "UMT5Tokenizer": ("extra_ids",),
  "ByT5Tokenizer": ("extra_ids",),
  "LlamaTokenizer": ("add_prefix_space", "spaces_between_special_tokens"),
  "MarianTokenizer": (
    "separate_vocabs",
    "source_lang",
    "target_lang",
    "target_vocab_file",
  ),
}
# What reads files that name no class.
_IMPLIED = {"WordPiece": _bert, "BPE": CLASSES["GPT2Tokenizer"]}
_NOTHING = (None, False, "", [], {})
_KNOWN = {
  *_WITHOUT_EFFECT,
  *_OF_EVERY_CLASS,
  *(option for each in CLASSES.values() for option in each.options),
  *(option for some in _READ_OTHERWISE.values() for option in some),
}
_REFUSED = {
  ("MarianTokenizer", "sp_model_kwargs"): "texts are cut here without sampling "
  "alone; leave it out",
  ("MarianTokenizer", "separate_vocabs"): "only Marian vocabularies whose two "
  "languages share vocab.json are read",
}
_OF_T5 = ("T5Tokenizer", "MT5Tokenizer")
_T5 = TokenizerClass(
  "Unigram",
  lambda options, charsmap: (None, None),
  {"extra_ids": None},
  {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"},
)
# Classes of any tokenizer.json, without rules of their own.
_OF_ANY_FILE = (
  "PreTrainedTokenizer",
  "PreTrainedTokenizerFast",
  "PythonBackend",
  "TokenizersBackend",
)


@dataclasses.dataclass(frozen=True)
class Stated:
  """A class and what the files of a directory state for it.

  Attributes:
    name: The name of the class; "" where the kind of files implies it.
    rules_of: The class.
    options: The values of its options.
    pieces: The special piece of each role that has one.
    given: The pieces that the files add to the vocabulary: arguments of
      `tokenizers.AddedToken`, in the order of their ids.
    extra: The further special pieces that tokenizer_config.json states, or
      None.
    own: Those that special_tokens_map.json states, or None.
    reads_special: Whether special pieces are read in prompts.
  """

  name: str
  rules_of: TokenizerClass
  options: Options
  pieces: Mapping[str, Any]
  given: Sequence[Mapping[str, Any]]
  extra: Sequence[Any] | None
  own: Sequence[Any] | None
  reads_special: bool

  def rules(self, charsmap: bytes | None = None) -> Rules:
    """Returns the normalizer and the pre-tokenizer."""
    return self.rules_of.rules(self.options, charsmap)

  def special(self) -> dict[str, str]:
    """Returns the name of the piece of each role."""
    return {r: _content(self.pieces[r]) for r in ROLES if r in self.pieces}

  def of_model(self) -> dict[str, str]:
    """Returns the same, with the class's own where files state none."""
    return {**self.rules_of.pieces, **self.special()}

  def added(self, own: Sequence[Any] | None = None) -> list[dict[str, Any]]:
    """Returns arguments of `tokenizers.AddedToken` of all added pieces.

    Args:
      own: The pieces that a SentencePiece model reads as they stand.
    """
    extra = self.extra
    if extra is None:
      own = self.own if own is None else own
      extra = self.rules_of.further(self.options, own)
    named = {*self.special().values()}
    found = {piece["content"]: dict(piece) for piece in self.given}
    for piece in (*self.pieces.values(), *extra):
      name = _content(piece)
      if name is None or name in found:
        continue
      if isinstance(piece, str):
        takes_space = (
          piece == self.pieces.get("mask") and self.rules_of.mask_takes_space
        )
        found[name] = {
          "content": name,
          "lstrip": takes_space,
          "normalized": takes_space,
        }
      else:
        found[name] = _arguments(piece)
      found[name].setdefault("special", True)
    for name, piece in found.items():
      piece["special"] = name in named or (
        piece.get("special", False) and not tokenizer.is_text(name)
      )
    return list(found.values())

  def within_rows(
    self,
    folder: str,
    size: int,
    is_piece: Callable[[str], bool],
    own: Sequence[Any] | None = None,
  ) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the added pieces that the model beside a vocabulary has rows for.

    Args:
      folder: The folder of the vocabulary, which may have a config.json.
      size: The number of the pieces of the vocabulary without them.
      is_piece: Whether a name is one of these.
      own: As in `added`.

    Returns:
      Those with rows, and those that begin or end texts; and the names of the
      others, if files state them.
    """
    rows = files.stated_rows(folder)
    named = files.stated_pieces(folder)
    needed = {named.get("bos"), named.get("eos")}
    given = {piece["content"] for piece in self.given}
    added, passed_over = [], []
    for piece in self.added(own):
      name = piece["content"]
      if not is_piece(name):
        # The kind of the files implies the class: it has no pieces of its own.
        if not self.name and name not in given:
          continue
        if rows is not None and size >= rows and name not in needed:
          if name in given or name in named.values():
            passed_over.append(name)
          continue
        size += 1
      added.append(piece)
    return added, passed_over

  def describe(self) -> str:
    """Describes what makes other ids than the files by themselves, or ""."""
    rules_of = self.rules_of
    chosen = {
      name: value
      for name, value in sorted(self.options.items())
      if value != rules_of.options.get(name)
      and name not in ("do_lower_case", "src_lang", "stated")
    }
    if rules_of.is_plain and not chosen:
      return ""
    return f"{self.name} {chosen}"


def stated(
  folder: str,
  model: str,
  lower_case: bool | None = None,
  has_rules: bool = False,
) -> Stated | None:
  """Returns the class that reads the files of a folder, and its options.

  Args:
    folder: The folder of a vocabulary.
    model: The type of its model, as in `TokenizerClass`.
    lower_case: A value of the option `do_lower_case`, in place of the files'
      value.
    has_rules: Whether the vocabulary has rules of its own (tokenizer.json),
      which hold if no class of `CLASSES` is named.

  Returns:
    None if the files say by themselves how a text is cut.

  Raises:
    UserError: The files name a class or an option that is not known here, or
      are damaged.
  """
  name = files.tokenizer_class(folder)
  rules_of = CLASSES.get(name)
  if rules_of is None or rules_of.model != model:
    if has_rules:
      return None
    _check_class(folder, name, model)
    if name in _READ_OTHERWISE:
      _check_options(folder, name)
    name, rules_of = "", _IMPLIED.get(model)
    if rules_of is None:
      return None
  return _stated(folder, name, rules_of, lower_case)


def t5(folder: str) -> Stated | None:
  """Returns what the files of a folder state for T5's class.

  SentencePiece cuts its texts; special pieces that these files add are read.

  Args:
    folder: The folder of a SentencePiece model.

  Returns:
    None if the files name another class, or none.
  """
  name = files.tokenizer_class(folder)
  return _stated(folder, name, _T5) if name in _OF_T5 else None


def _stated(
  folder: str,
  name: str,
  rules_of: TokenizerClass,
  lower_case: bool | None = None,
) -> Stated:
  config = files.special_settings(folder)
  _check_options(folder, name)
  options = {**rules_of.options, "stated": config}
  if not name:
    options["do_lower_case"] = None  # The pieces show it.
  for option in rules_of.options:
    if config.get(option) is not None or option == "mask_token_sent":
      options[option] = config.get(option, options[option])
  if lower_case is not None and "do_lower_case" in options:
    options["do_lower_case"] = lower_case
  elif lower_case:
    raise UserError(
      f"lower_case=True: {name} has no such option; leave it out."
    )
  defaults = rules_of.pieces if name else {}
  pieces = {r: config.get(f"{r}_token", defaults.get(r)) for r in ROLES}
  pieces |= {
    option: piece
    for option, piece in config.items()
    if option.endswith("_token")
    and option.removesuffix("_token") not in ROLES
    and (
      isinstance(piece, str) or isinstance(piece, dict) and "content" in piece
    )
  }
  pieces |= config.get("model_specific_special_tokens") or {}
  further = config.get("extra_special_tokens")
  if isinstance(further, dict):
    pieces |= further
    further = None
  alone = files.tokenizer_config(folder)
  is_given = {"extra_special_tokens", "additional_special_tokens"} & {*alone}
  if is_given and further is None:
    further = alone.get("additional_special_tokens")
  return Stated(
    name=name,
    rules_of=rules_of,
    options=options,
    pieces={r: piece for r, piece in pieces.items() if piece is not None},
    given=_given(folder, config),
    extra=(further or ()) if is_given else None,
    own=config.get("additional_special_tokens"),
    reads_special=not config.get("split_special_tokens"),
  )


def check_plain(path: str) -> None:
  """Checks that SentencePiece alone cuts the texts of a model, as SeqIO does.

  Args:
    path: The path of the model.

  Raises:
    UserError: The files beside it name a class that has rules of its own.
  """
  folder = os.path.dirname(path)
  name = files.tokenizer_class(folder)
  if name in CLASSES and CLASSES[name].model == "Unigram":
    raise UserError(
      f"the files beside {path!r} name {name}, which cuts texts by rules that "
      "SeqIO's SentencePieceVocabulary does not have; take "
      "tasks.vocabulary.features(path), or a copy of the model in a folder of "
      "its own"
    )


def check_options(folder: str) -> None:
  """Checks the options beside files that no class of `CLASSES` reads.

  Args:
    folder: The folder of a vocabulary.

  Raises:
    UserError: An option is not known here.
  """
  name = files.tokenizer_class(folder)
  if name in _READ_OTHERWISE:
    _check_options(folder, name)


def _check_class(folder: str, name: str | None, model: str) -> None:
  """Raises UserError if a class cannot read files or is not known here."""
  if name in CLASSES and files.names_class(folder):
    raise UserError(
      f"{files.settings_path(folder)!r} names {name}, which reads a "
      f"{CLASSES[name].model} model, and the vocabulary beside it is a {model} "
      "one; name the class that reads it, or a tokenizer.json"
    )
  if name is None or name in {*CLASSES, *_READ_OTHERWISE, *_OF_ANY_FILE}:
    return
  raise UserError(
    f"{files.settings_path(folder)!r} names the class {name}, whose rules "
    "(case, accents, spaces, special pieces) are not known here; put the "
    "tokenizer.json of the same model beside it, which states them. Known: "
    f"{', '.join(sorted({*CLASSES, *_READ_OTHERWISE}))}"
  )


def _check_options(folder: str, name: str) -> None:
  """Raises UserError for an option that is not known."""
  config = files.tokenizer_config(folder)
  path = files.settings_path(folder)
  for option, value in config.items():
    if option not in _KNOWN and not (
      option.endswith("_token") or value in _NOTHING
    ):
      raise UserError(
        f"{path!r} has {option}={schemas.shown(value)}, which is not known "
        "here and may change how texts are cut; remove it there if it does not"
      )
    refused = _REFUSED.get((name, option))
    if refused and value:
      raise UserError(
        f"{path!r} has {option}={schemas.shown(value)}; {refused}"
      )


def _given(folder: str, config: Options) -> list[dict[str, Any]]:
  """Returns the pieces that files add, in the order of their ids."""
  decoder = config.get("added_tokens_decoder")
  if decoder is not None:
    if wrong := [i for i in decoder if not i.isdecimal()]:
      raise UserError(
        f"{files.settings_path(folder)!r} has {wrong[0]!r} in "
        "added_tokens_decoder, which is no id"
      )
    ids = sorted(decoder, key=int)
    return [_arguments(decoder[i]) for i in ids]
  special = {*map(_content, config.get("additional_special_tokens") or ())}
  special |= {
    _content(config[f"{role}_token"])
    for role in ROLES
    if config.get(f"{role}_token")
  }
  by_piece = files.added_pieces(folder)
  return [
    {"content": p, "special": p in special, "normalized": p not in special}
    for p in sorted(by_piece, key=by_piece.get)
  ]


def _arguments(piece: Mapping[str, Any]) -> dict[str, Any]:
  return {k: piece[k] for k in _ARGUMENTS if piece.get(k) is not None}


_ARGUMENTS = (
  "content",
  "single_word",
  "lstrip",
  "rstrip",
  "normalized",
  "special",
)
