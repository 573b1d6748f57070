"""Records what independent implementations compute, for `make test`.

.venv/bin/python -m tests.oracles.pytorch.record_variants
"""

from tests.golden import variants
from tests.oracles.pytorch.variants import expected


def main():
  variants.FOLDER.mkdir(exist_ok=True)
  for name in variants.VARIANTS:
    _, params, batch = variants.setting(name)
    variants.record(variants.path(name), params, batch, expected(name))


if __name__ == "__main__":
  main()
