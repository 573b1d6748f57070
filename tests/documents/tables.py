"""Writes the tables of docs/reference that the code or stored files know.

  .venv/bin/python -m tests.documents.tables

A table stands between `<!-- table: NAME -->` and `<!-- end -->`, NAME being one
of `TABLES`. tests/documents/tables_test.py compares pages and code.
"""

from collections.abc import Collection, Iterable, Sequence
import csv
import fnmatch
import importlib
import inspect
import itertools
import json
import pathlib
import pkgutil
import re
from typing import Any

import gin
import jax
from scipy import stats

from tests import tiny_models
from tests.documents import macros
from tests.golden import encoders as golden_encoders
from tests.golden import families as golden_families
from tests.golden import mesh_tensorflow as golden_mesh_tensorflow
from tests.golden import update_parameter_trees
from tests.golden import variants as golden_variants
from transformer_zoo import config
from transformer_zoo.cli import listing
from transformer_zoo.config import registry
from transformer_zoo.forecast import hardware
from transformer_zoo.forecast import topologies
from transformer_zoo.interop.huggingface import families
from transformer_zoo.interop.huggingface import family_of
from transformer_zoo.modules.stacks.both_ways import BothWays
from transformer_zoo.peft.trainable import ALL
from transformer_zoo.studies import published
from transformer_zoo.studies.design import loading
from transformer_zoo.training import state

Table = tuple[Sequence[str], Iterable[Sequence[Any]]]  # Heads and rows.

ROOT = pathlib.Path(__file__).parents[2]
GIN = ROOT / "gin_configs"
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
_OF_SMALL_SUITES = "miniature_", "small_", "night_", "demo_"
_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n\n)(.*?)(<!-- end -->\n)", re.S)
_GIB = 2**30


def written(text: str, names: Collection[str]) -> str:
  """Returns the text of a page with some of its tables as the code has them."""

  def block(found):
    begin, name, _, end = found.groups()
    if name not in names:
      return found[0]
    return f"{begin}{_markdown(*TABLES[name]())}\n{end}"

  return _BLOCK.sub(block, text)


def found() -> dict[str, tuple[pathlib.Path, list[list[str]]]]:
  """Returns the page and the cells of each table, heads apart."""
  return {
    name: (page, [_cells(line) for line in table.strip().splitlines()[2:]])
    for page in PAGES
    for _, name, table, _ in _BLOCK.findall(page.read_text("utf-8"))
  }


def _cells(line: str) -> list[str]:
  return [cell.strip("` ") for cell in line.strip("|").split(" | ")]


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
  lines = [_line(heads), "|" + "---|" * len(heads) + "\n", *map(_line, rows)]
  return "".join(lines)


def _line(cells: Sequence[Any]) -> str:
  texts = (str(cell).replace("|", "\\|") for cell in cells)
  return f"| {' | '.join(texts)} |\n"


def _code(values: Iterable[str]) -> str:
  return ", ".join(f"`{value}`" for value in values)


def architectures() -> Table:
  """What the file of each architecture says of it."""
  _, rows = _files("architectures")
  return ("`architectures/`", "what it is", "`sizes/`"), [
    [name, what, _code(sizes_of(name.strip("`"))) or "any"]
    for name, what in rows
  ]


def sizes_of(architecture: str) -> list[str]:
  """Returns the sizes that the comment of the architecture's file names."""
  source = (GIN / f"architectures/{architecture}.gin").read_text("utf-8")
  comment = re.match(r"(#.*\n)+", source)[0]
  every = sorted(path.stem for path in (GIN / "sizes").glob("*.gin"))
  found = []
  for before, choices, after in re.findall(
    r"sizes/(\w*)(?:\{(.*?)\})?(\*?)\.gin", comment
  ):
    for choice in choices.split(","):
      found += fnmatch.filter(every, before + choice + after)
  return found


def layers() -> Table:
  """What the layers of each architecture are made of."""
  rows = []
  for name, size in update_parameter_trees.SIZES.items():
    model = update_parameter_trees.model(name, size, scan=False)
    offers = model.offers
    *_, transformer = offers.transformers.values()
    if isinstance(transformer.layer_stack, BothWays):
      layer = transformer.layer_stack.left_to_right.layer
      made = "", "", _code([type(layer).__name__])
      rows.append([f"`{name}`", "encoder", "no text", *made])
      continue
    layer = transformer.layer_stack.layer
    attention = getattr(layer, "self_attention", None) or layer.attention
    positions = [
      transformer.position_embedder,
      transformer.position_bias,
      transformer.relative_embedder,
      *(
        getattr(attention, field, None)
        for field in ("rotary", "position_bias", "relative_vectors")
      ),
    ]
    rows.append(
      [
        f"`{name}`",
        ", ".join(offers.transformers),
        offers.writes or "no text",
        _code(type(part).__name__ for part in positions if part is not None),
        _code([layer.connect.__name__, type(layer.norm).__name__]),
        _code([type(layer.mlp).__name__, layer.mlp.activation]),
      ]
    )
  heads = "`architectures/`", "stacks", "writes", "positions", "norms"
  return (*heads, "feed-forward network"), rows


def sizes() -> Table:
  """The widths of each size, and the parameters of its architectures."""
  rows = []
  for path in sorted((GIN / "architectures").glob("*.gin")):
    for size in sizes_of(path.stem):
      files = [f"architectures/{path.name}", f"sizes/{size}.gin"]
      macros = config.macros(files, [])
      model = update_parameter_trees.model(path.stem, size, scan=False)
      depths = [
        macros[f"NUM_{side.upper()}_LAYERS"]
        for side in model.offers.transformers
      ]
      widths = [
        macros.get(name)
        for name in ("EMBED_DIM", "NUM_HEADS", "MLP_DIM", "VOCAB_SIZE")
      ]
      parameters = sum(tiny_models.parameter_sizes(model).values())
      rows.append(
        [
          f"`{path.stem}`",
          f"`{size}`",
          " + ".join(map(str, depths)),
          *(f"{n:,}" if n else "" for n in [*widths, parameters]),
        ]
      )
  heads = "`architectures/`", "`sizes/`", "layers", "width", "heads"
  return (*heads, "feed-forward", "vocabulary", "parameters"), rows


def parts() -> Table:
  """What the file of each part says of it."""
  return _files("parts")


def heads() -> Table:
  """What the file of each head says of it."""
  return _files("heads")


def _files(folder: str) -> Table:
  rows = []
  for path in sorted((GIN / folder).rglob("*.gin")):
    name = path.relative_to(GIN / folder).with_suffix("").as_posix()
    rows.append([f"`{name}`", listing.summary(path.read_text("utf-8"))])
  return (f"`{folder}/`", "what it is"), rows


def recipes() -> Table:
  """The numbers of the runs that papers describe."""
  rows = []
  for path in sorted((GIN / "runs").glob("*.gin")):
    bound = config.macros([f"runs/{path.name}"], [])
    steps, epochs = bound.get("TRAIN_STEPS"), bound.get("EPOCHS")
    if path.stem.startswith(_OF_SMALL_SUITES) or "BATCH_SIZE" not in bound:
      continue
    if not (epochs or isinstance(steps, int)):
      continue
    share, warmup = bound.get("WARMUP_SHARE"), bound.get("WARMUP_STEPS", "")
    if share is not None:
      warmup = f"{100 * share:g} %"
    lengths = bound.get("TASK_FEATURE_LENGTHS", {}).values()
    rows.append(
      [
        f"`{path.stem}`",
        listing.summary(path.read_text("utf-8")),
        f"{bound['BATCH_SIZE']:,}",
        ", ".join(map(str, lengths)),
        f"{epochs} epochs" if epochs else f"{steps:,} steps",
        bound.get("LEARNING_RATE", "by steps"),
        warmup if isinstance(warmup, str) else f"{warmup:,}",
      ]
    )
  heads = "`runs/`", "what it is", "rows", "tokens", "length", "rate"
  return (*heads, "warm-up"), rows


_T5 = "architectures/t5_1_1.gin", "sizes/t5_1_1_small.gin", "runs/finetune.gin"
_USUAL = "MODEL_DIR='run'", "MIXTURE_OR_TASK_NAME='task'", "TRAIN_STEPS=1"
# What all optimizers have, and what wraps another one.
_OF_OPTIMIZERS = "learning_rate", "clip_norm", "state_dtype", "optimizer"


def optimizers() -> Table:
  """The comment of each optimizer's file, its constants and its state."""
  rows = []
  matrix = jax.ShapeDtypeStruct((512, 512), "float32")
  names = ("token_embedder", "generator", "mlp")
  params = {name: {"kernel": matrix} for name in names}
  for name, what, _, constants in _functions("optimizers"):
    with config.kept():
      config.load([*_T5, f"optimizers/{name}.gin"], _USUAL)
      optimizer = gin.get_bindings("train")["optimizer"](lambda step: 0.1)
    kept = jax.eval_shape(optimizer.init, params)
    size = sum(leaf.size for leaf in jax.tree.leaves(kept) if leaf.ndim)
    rows.append(
      [f"`{name}`", what, constants, f"{size / matrix.size / len(names):.3g}"]
    )
  heads = "`optimizers/`", "what it is", "constants", "numbers kept for each"
  return heads, rows


def schedules() -> Table:
  """The comment of each schedule's file, and its settings."""
  return ("`schedules/`", "what it is", "settings"), [
    [f"`{name}`", what, settings]
    for name, what, _, settings in _functions("schedules")
  ]


def _functions(folder: str) -> Iterable[tuple[str, str, str, str]]:
  """Yields name, comment, function and parameters of the files of a folder."""
  for path in sorted((GIN / folder).glob("*.gin")):
    text = path.read_text("utf-8")
    comment = " ".join(re.match(r"(#.*\n)+", text)[0].replace("#", "").split())
    comment = re.sub(r" (Name it after|After) .*", "", comment)
    bound = dict(macros.bindings(path))
    function = next(
      value.strip("@()")
      for name, value in bound.items()
      if name in ("train.optimizer", "train.learning_rate")
    )
    target = registry.find(function, path.name).wrapped
    settings = []
    for name, parameter in inspect.signature(target).parameters.items():
      value = bound.get(f"{function}.{name}", repr(parameter.default))
      value = bound.get(value.removeprefix("%"), value)
      if folder == "schedules" or name not in _OF_OPTIMIZERS:
        settings.append(f"{name} = {value}")
    yield path.stem, comment, function, _code(settings)


_BERT = "architectures/bert.gin", "sizes/bert_base.gin", "runs/finetune.gin"
# Methods of encoders, and the files before them.
_OF_ENCODERS = {
  "bilstm": ("heads/tags.gin", "peft/features.gin"),
  "features": ("heads/classes.gin",),
  "prompt_answers": ("heads/classes.gin",),
}


# What a method needs of its task.
_GIVEN = {
  "prompt_labels": [
    "PROMPT_LABELS=('negative', 'positive')",
    f"PROMPT_VOCABULARY='{ROOT / 'tasks/miniature/vocabulary.model'}'",
  ]
}


# Described above the table.
_OF_EVERY_METHOD = "BASE_BITS", "ROUNDED_PROJECTIONS"


def methods() -> Table:
  """What each method trains, and how many numbers that is."""
  _, files = _files("peft")
  rows = []
  for quoted, what in files:
    name = quoted.strip("`")
    bound = config.macros([f"peft/{name}.gin"], [])
    settings = [
      f"{macro} = {value!r}"
      for macro, value in bound.items()
      if macro not in (*_OF_EVERY_METHOD, "METHODS", "MODEL", "CONVERTER")
    ]
    before = _T5
    if name in _OF_ENCODERS:
      before = *_BERT, *_OF_ENCODERS[name]
    given = _GIVEN.get(name, [])
    _, trained = _parameters([*before, f"peft/{name}.gin"], given)
    rows.append([quoted, what, _code(settings), f"{trained:,}"])
  return ("`peft/`", "what is trained", "macros", "parameters"), rows


def adapter_widths() -> Table:
  """The parameters of T5 base with the adapters of Raffel et al., table 10."""
  base = "architectures/t5_1_0.gin", "sizes/t5_1_0_base.gin", _T5[-1]
  rows = [["all", *_parameters(base, [])]]
  for width in (32, 128, 512, 2048):
    files = [*base, "peft/adapters.gin"]
    rows.append([width, *_parameters(files, [f"ADAPTER_DIM={width}"])])
  return ("d", "parameters", "trained"), [
    [width, f"{every:,}", f"{trained:,}"] for width, every, trained in rows
  ]


def _parameters(
  files: Sequence[str], bindings: Sequence[str]
) -> tuple[int, int]:
  """The numbers of all parameters of a run and of those that it trains."""
  with config.kept():
    config.load(files, [*_USUAL, "SCAN_LAYERS=True", *bindings])
    run = gin.get_bindings("train")
    params = state.abstract_params(run["model"])
    trained = run.get("trainable", ALL).count(params)
    return ALL.count(params), trained


def model_types() -> Table:
  """The models that are read from directories of Hugging Face."""
  rows = []
  for module in pkgutil.iter_modules(families.__path__):
    found = importlib.import_module(f"{families.__name__}.{module.name}")
    what = found.__doc__.partition("\n")[0].rstrip(".")
    ours = dict.fromkeys(
      file
      for family in found.FAMILIES
      for file in family.architecture({"model_type": family.kind}).gin_files
      if file.startswith("architectures/")
    )
    rows.append(
      [
        _code(family.kind for family in found.FAMILIES),
        what,
        _code(pathlib.Path(file).stem for file in ours),
      ]
    )
  return ("`model_type`", "models", "`architectures/`"), rows


def classes() -> Table:
  """The heads of the classes of encoders."""
  rows = {}
  for family in families.FAMILIES:
    for end, heads in getattr(family, "heads", {}).items():
      rows.setdefault((end, heads), []).append(family.kind)
  return ("class", "heads here", "`model_type`"), [
    [f"`...{end}`", _code(heads) or "none", _code(kinds)]
    for (end, heads), kinds in sorted(rows.items())
  ]


def slices() -> Table:
  """The slices that can be compiled for, and the figures of their chips."""
  rows = []
  for name, tpu in topologies.TPUS.items():
    chip = hardware.named(name)
    rows.append(
      [
        f"`{name}:{'x'.join('4' * tpu.dimensions)}`",
        f"{tpu.pod:,}",
        hardware.DEVICES_OF_CHIP.get(name, 1),
        f"{chip.peak_flops / 1e12:,.0f}",
        f"{chip.available_bytes / _GIB:.2f}",
        f"{chip.memory_bandwidth / 1e9:,.0f}",
        f"{chip.ring_bandwidth / 1e9:,.0f}",
      ]
    )
  heads = "slice", "chips of a pod", "devices of a chip", "TFLOP/s", "GiB"
  return (*heads, "memory, GB/s", "ring, GB/s"), rows


_FORECASTS = {
  "t5_1_0_base": "T5 base",
  "t5_1_0_large": "T5 large",
  "t5_1_0_3b": "T5 3B",
  "t5_1_0_11b": "T5 11B",
  "t5_1_1_xl": "T5.1.1 XL",
  "t5_1_1_xxl": "T5.1.1 XXL",
}


def smallest_slices() -> Table:
  """The smallest slice of each chip on which a size fits."""
  chips = "v5e", "v4", "v5p"
  smallest = {}
  for row in sorted(_forecasts(), key=lambda row: -row["devices"]):
    cell, memory = row["cell"], row["memory"]
    if row["fits"]:
      smallest[cell["size"], cell["batch"], cell["chip"]] = (
        f"{cell['chips']} chips, {memory['total'] / _GIB:.1f} of "
        f"{memory['available'] / _GIB:.1f} GiB"
      )
  return ("size", "batch", *chips), [
    [name, f"{batch:,}", *(smallest[size, batch, chip] for chip in chips)]
    for size, name in _FORECASTS.items()
    for batch in (128, 2048)
  ]


def forecasts() -> Table:
  """All forecasts of docs/pods/forecasts.jsonl."""
  order = list(_FORECASTS)

  def place(row):
    cell = row["cell"]
    return (
      order.index(cell["size"]), cell["batch"], cell["chip"], cell["chips"]
    )  # fmt: skip

  heads = "size", "batch", "slice", "mesh", "parts", "GiB a device", "limit"
  heads = (*heads, "s a step", "tokens/s", "utilisation", "days")
  return heads, map(_forecast, sorted(_forecasts(), key=place))


def _forecasts() -> list[dict[str, Any]]:
  path = ROOT / "docs/pods/forecasts.jsonl"
  return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _forecast(row: dict[str, Any]) -> list[Any]:
  cell, memory = row["cell"], row["memory"]
  cells = [
    _FORECASTS[cell["size"]],
    f"{cell['batch']:,}",
    row["topology"],
    "x".join(map(str, row["mesh"].values())),
    row["bindings"]["NUM_MICROBATCHES"],
  ]
  if not row["fits"]:
    return [*cells, f"needs {memory['needed'] / _GIB:.1f}", *[""] * 5]
  best, worst = (row["roofline"][bound] for bound in ("at_best", "in_turn"))
  # Raffel et al. 2020, section 3.1.2: the steps of their baseline.
  days = 2**19 / 86400
  return [
    *cells,
    f"{memory['total'] / _GIB:.1f}",
    row["roofline"]["limit"],
    _range(best["seconds"], worst["seconds"], ".3f"),
    _range(worst["tokens_per_second"], best["tokens_per_second"], ",.0f"),
    _range(100 * worst["utilisation"], 100 * best["utilisation"], ".0f") + " %",
    _range(days * best["seconds"], days * worst["seconds"], ".1f"),
  ]


def _range(first: float, last: float, form: str) -> str:
  both = dict.fromkeys(format(value, form) for value in (first, last))
  return " to ".join(both)


def modifications() -> Table:
  """The rows of table 1 of Narang et al. 2021: what is bound, print, ours."""
  study = loading.load_study("narang_table1")
  table = published.load(study.published)
  print_of = table.rows[table.baseline]
  operations = table.details[table.baseline]["operations"]
  with (ROOT / "docs/reference/modifications.csv").open() as file:
    measured = {line["row"]: line for line in csv.DictReader(file)}
  rows = []
  for row in study.rows:
    # What all rows begin with, LayerNorm, is the baseline's.
    bound = row.changes["all"][1:]
    texts = [
      listing.summary((GIN / name).read_text("utf-8"))
      for name in bound
      if name.endswith(".gin")
    ]
    ours = measured[row.name]
    printed = [""] * 5
    if row.published:
      details, scores = table.details[row.published], table.row(row.published)
      verdicts = [
        _verdict(table, column, sign * (scores[column] - print_of[column]))
        for column, sign in (("final_loss", -1), ("SGLUE", 1))
      ]
      printed = [
        details["parameters"],
        _times(_trillions(details["operations"]) / _trillions(operations)),
        f"{scores['final_loss']:.3f}",
        f"{scores['SGLUE']:.2f}",
        ", ".join(verdicts),
      ]
    rows.append(
      [
        row.published or "ours: the best together",
        " ".join(texts),
        _code(name.removeprefix("parts/") for name in bound),
        f"{int(ours['parameters']) / 1e6:,.2f}M",
        printed[0],
        _times(float(ours["flops"])),
        printed[1],
        _times(float(ours["seconds"])),
        *printed[2:],
      ]
    )
  heads = "row", "what it is", "bound after LayerNorm", "parameters", "in print"
  costs = "FLOPs", "operations in print", "seconds a step"
  return (*heads, *costs, "loss", "SuperGLUE", "verdict"), rows


def _trillions(operations: str) -> float:
  return float(operations.removesuffix("T"))


def _times(ratio: float) -> str:
  return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def _verdict(table, column: str, gain: float) -> str:
  """Better or worse by more than two deviations of the baseline, or equal."""
  if abs(gain) <= 2 * table.deviations[column] + 1e-9:
    return "equal"
  return "better" if gain > 0 else "worse"


def seeds() -> Table:
  """The differences, in deviations over seeds, from which one counts."""
  rows = []
  for number in (2, 3, 5, 10):
    needed = [
      stats.t.isf(0.025 / comparisons, 2 * (number - 1)) * (2 / number) ** 0.5
      for comparisons in (1, 7, 21, 63)
    ]
    rows.append([number, *(f"{each:.1f}" for each in needed)])
  return ("seeds", "alone", "clearest of 7", "of 21", "of 63"), rows


# Sizes, ids and the names of classes and labels.
_SIZES = re.compile(
  "model_type|vocab_size|architectures|id2label|.*_token_id|d_.*|n_embd|dim"
  "|n_layers?|n_heads?|n_inner|n_positions|hidden_(dim|size)|intermediate_size"
  "|embedding_size|max_position_embeddings|num_((hidden|decoder)_)?layers"
  "|num_(attention_)?heads|(en|de)coder_(layers|ffn_dim|attention_heads)"
)
_LONGEST_OPTION = 60


def compared_families() -> Table:
  """What of each model of Hugging Face is compared with its class."""
  configs = {}
  for config_of in (golden_families.CONFIGS, golden_encoders.CONFIGS):
    for read in config_of.values():
      configs.setdefault(read["model_type"], []).append(read)
  rows = []
  for kind, read in configs.items():
    ours = dict.fromkeys(
      pathlib.Path(file).stem
      for each in read
      for file in family_of(each).architecture(each).gin_files
      if file.startswith("architectures/")
    )
    classes = {name for each in read for name in each.get("architectures", ())}
    options = []
    for option in dict.fromkeys(itertools.chain(*read)):
      if not _SIZES.fullmatch(option):
        values = {repr(each[option]) for each in read if option in each}
        text = f"{option}: {', '.join(sorted(values))}"
        options.append(text if len(text) <= _LONGEST_OPTION else option)
    rows.append(
      [
        f"`{kind}`",
        _code(ours),
        len(read),
        _code(sorted(classes)),
        _code(options),
      ]
    )
  heads = "`model_type`", "`architectures/`", "configurations", "classes"
  return (*heads, "options"), rows


def compared_variants() -> Table:
  """The variants that are compared with models that others have written."""
  beside = {
    "the definitions in PyTorch": golden_variants.WITHOUT_CLASS,
    "its class of `transformers`": golden_variants.WITH_CLASS,
    "Mesh TensorFlow": golden_mesh_tensorflow.VARIANTS,
  }
  return ("variant", "beside", "`architectures/`", "`parts/`"), [
    [
      f"`{name}`",
      other,
      f"`{variant.architecture}`",
      _code(part.removeprefix("../") for part in variant.parts),
    ]
    for other, variants in beside.items()
    for name, variant in variants.items()
  ]


def tolerances() -> Table:
  """The differences that the tests allow, relative to the largest value."""
  rows = []
  tests = sorted((ROOT / "tests/oracles").rglob("*_test.py"))
  for path in (ROOT / "tests/golden/variants.py", *tests):
    text = path.read_text("utf-8")
    found = dict(
      re.findall(r"^(LOGITS|GRADIENT|LOSS)_TOLERANCE = (.*)$", text, re.M)
    )
    if found:
      name = path.relative_to(ROOT / "tests").with_suffix("")
      what = text.split('"""')[1].partition("\n")[0].rstrip(".")
      values = (found.get(each, "") for each in ("LOGITS", "LOSS", "GRADIENT"))
      rows.append([f"`{name}`", what, *values])
  return (
    "`tests/`",
    "what it compares",
    "logits",
    "loss",
    "gradient",
  ), rows


def macros_of_run() -> Table:
  """The macros of the run and its data."""
  return _macros("run")


def macros_of_model() -> Table:
  """The macros of the model."""
  return _macros("model")


def macros_of_optimizer() -> Table:
  """The macros of the optimizer and the mesh."""
  return _macros("optimizer")


def _macros(section: str) -> Table:
  names = [name for name in macros.macros() if macros.section(name) == section]
  heads = "macro", "meaning", "read by", "default, or the files that bind it"
  return heads, map(macros.row, names)


TABLES = {
  table.__name__: table
  for table in (
    adapter_widths,
    architectures,
    classes,
    compared_families,
    compared_variants,
    forecasts,
    heads,
    layers,
    macros_of_model,
    macros_of_optimizer,
    macros_of_run,
    methods,
    model_types,
    modifications,
    optimizers,
    parts,
    recipes,
    schedules,
    seeds,
    sizes,
    slices,
    smallest_slices,
    tolerances,
  )
}


def main() -> None:
  """Writes the tables of all pages anew."""
  for page in PAGES:
    text = page.read_text("utf-8")
    page.write_text(written(text, TABLES), encoding="utf-8")


if __name__ == "__main__":
  main()
