"""Maps of attention as an HTML page, as arrays, and as a table."""

import base64
from collections.abc import Mapping, Sequence
import json
import pathlib
from typing import Any

import jinja2
import numpy as np

from transformer_zoo.runs.analysis.attention_maps import AttentionMap

_PAGE = pathlib.Path(__file__).parent / "attention.html"
# Tokens of longer texts are read by pointing at the map alone.
_MOST_TOKENS = 64


def render(text: str, checkpoint: str, maps: Sequence[AttentionMap]) -> str:
  """Returns a page that needs no network, with a small map of each head.

  Args:
    text: The text that was read.
    checkpoint: What the page says of the model.
    maps: The maps, each with its heads.
  """
  environment = jinja2.Environment(
    autoescape=True, undefined=jinja2.StrictUndefined
  )
  data = [
    {
      "name": each.name,
      "queries": each.queries,
      "keys": each.keys,
      "weights": [_encoded(head_LM) for head_LM in each.weights_HLM],
    }
    for each in maps
  ]
  shown = [
    {
      "number": number,
      "name": each.name,
      "queries": each.queries,
      "keys": each.keys,
      "width": _side(each.keys),
      "height": _side(each.queries),
      "has_tokens": max(len(each.queries), len(each.keys)) <= _MOST_TOKENS,
      "heads": [_told(row) for row in table([each])],
    }
    for number, each in enumerate(maps)
  ]
  return environment.from_string(_PAGE.read_text()).render(
    text=text,
    checkpoint=checkpoint,
    maps=shown,
    # "<" would end the script; JSON has another spelling for it.
    data=jinja2.filters.Markup(json.dumps(data).replace("<", "\\u003c")),
  )


def table(maps: Sequence[AttentionMap]) -> list[dict[str, Any]]:
  """Returns a row for each head: its attention, number, entropy, distance.

  The entropy is in nats; the distance, in tokens, is None for attention to
  another text.
  """
  rows = []
  for each in maps:
    entropy_H, distance_H = each.entropy_H(), each.distance_H()
    rows += [
      {
        "attention": each.name,
        "head": head,
        "entropy": float(entropy),
        "distance": None if distance_H is None else float(distance_H[head]),
      }
      for head, entropy in enumerate(entropy_H)
    ]
  return rows


def arrays(maps: Sequence[AttentionMap]) -> dict[str, np.ndarray]:
  """Returns what an .npz file holds: weights, queries and keys by name.

  `encoder/layers_0/attention` is float32 [H, L, M];
  `encoder/layers_0/attention/queries` and `.../keys` are its tokens.
  """
  found = {}
  for each in maps:
    found[each.name] = each.weights_HLM
    found[f"{each.name}/queries"] = np.array(each.queries)
    found[f"{each.name}/keys"] = np.array(each.keys)
  return found


def _told(row: Mapping[str, Any]) -> str:
  distance = row["distance"]
  return f"{row['entropy']:.2f}" + (
    "" if distance is None else f", {distance:.1f}"
  )


def _side(tokens: Sequence[str]) -> float:
  """The side of a map in rem, with room for a line of each token."""
  return max(8, 0.6 * min(len(tokens), _MOST_TOKENS))


def _encoded(weights_LM: np.ndarray) -> str:
  """Weights as 65,535ths, little-endian, in base 64."""
  parts = np.round(weights_LM * 65535).astype("<u2")
  return base64.b64encode(parts.tobytes()).decode()
