"""Names that gin files had before, for files of finished runs."""

import re

_CLASSES = {
  "PermutedEncoder": "XLNet",
  "UnifiedEncoder": "UniLM",
  "ReadingDecoder": "EncoderDecoderWithHeads",
}
_OBJECTIVE = "sequence_to_sequence"  # A function, now a class.
# Attributes of a `Stack` that a part around it has now.
_OF_TRANSFORMER = (
  *("position_embedder", "position_bias", "relative_embedder", "input_norm"),
  *("input_projection", "dropout", "output_dropout", "norm", "norm_name"),
  "mix",
)
_OF_DEBERTA = "mask_decoder", "convolution"
_SCOPE = r"^((?:[\w.]+/)*)"
_RENAMED = (
  (
    rf"{_SCOPE}Stack\.({'|'.join(_OF_TRANSFORMER)})(?=\s*=)",
    r"\1Transformer.\2",
  ),
  (rf"{_SCOPE}Stack\.windows(?=\s*=)", r"\1Windows.sizes"),
  (
    rf"{_SCOPE}Stack\.divide_scores_by_depth(?=\s*=)",
    r"\1ScoreScales.divide_by_depth",
  ),
  (rf"{_SCOPE}Decoder\.stack(?=\s*=)", r"\1Decoder.transformer"),
)
# What stands in a stack is None where a run did not have it.
_NOTHING = re.compile(
  rf"{_SCOPE}Stack\.({'|'.join((*_OF_DEBERTA, 'first_layer'))}) = None$", re.M
)
_OF_DEBERTA_IN_STACK = re.compile(
  rf"{_SCOPE}Stack\.({'|'.join(_OF_DEBERTA)})(?=\s*=)", re.M
)
_FIRST_LAYER = re.compile(rf"{_SCOPE}Stack\.first_layer(?=\s*=)", re.M)
_STACK = re.compile(
  r"^(?!.*(?:layer_stack|\.stack)\b)([^#\n]*=.*)"
  r"@((?:[\w.]+/)*)Stack\(\)",
  re.M,
)


def renewed(text: str) -> str:
  """Returns the text of a gin file with the names that its settings have now.

  Lines keep their numbers; what an earlier stack contained by itself is bound
  after the last one.

  Args:
    text: The text of a gin file or of one binding.
  """
  for earlier, now in _CLASSES.items():
    text = re.sub(rf"\b{earlier}\b", now, text)
  text = re.sub(rf"@{_OBJECTIVE}\b", "@SequenceToSequence()", text)
  text = re.sub(rf"\b{_OBJECTIVE}\.(?=\w+\s*=)", "SequenceToSequence.", text)
  if "Stack" not in text and "Decoder.stack" not in text:
    return text
  text = _NOTHING.sub("", text)
  more = []
  around = "Transformer"
  if _OF_DEBERTA_IN_STACK.search(text):
    around = "deberta_transformer"
    more.append("deberta_transformer.transformer = @Transformer()")
    text = _OF_DEBERTA_IN_STACK.sub(r"\1deberta_transformer.\2", text)
  stack = "Stack"
  if _FIRST_LAYER.search(text):
    stack = "with_first_layer"
    more.append("with_first_layer.stack = @Stack()")
    text = _FIRST_LAYER.sub("with_first_layer.first_layer", text)
  for earlier, now in _RENAMED:
    text = re.sub(earlier, now, text, flags=re.M)
  text, of_stacks = _STACK.subn(rf"\1@\2{around}()", text)
  if not of_stacks:
    return text
  more += [
    f"Transformer.layer_stack = @{stack}()",
    "Transformer.by_layer = (@Windows(), @ScoreScales())",
  ]
  return "\n".join([text, *more, ""])
