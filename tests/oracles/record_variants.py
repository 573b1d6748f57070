"""Records what independent implementations compute, for `make test`.

.venv/bin/python -m tests.oracles.record_variants
"""

import numpy as np

from tests.golden import t5
from tests.golden import variants
from tests.oracles.variants import expected


def main():
  variants.FOLDER.mkdir(exist_ok=True)
  for name in variants.VARIANTS:
    _, params, batch = variants.setting(name)
    np.savez_compressed(
      variants.path(name),
      checksum=t5.checksum(params, batch),
      **{k: variants.digest(k, v) for k, v in expected(name).items()},
    )


if __name__ == "__main__":
  main()
