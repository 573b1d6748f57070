"""Flags of XLA for programs that run a few times on tiny shapes.

Most of the time of tests is compilation. What XLA makes of a program before
machine code, fusion and partitioning, stays.
"""

import os

# The optimisation of machine code and kernels that are first written in MLIR,
# each half of a compilation, and several modules of LLVM for one program.
FLAGS = (
  "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
  " --xla_cpu_parallel_codegen_split_count=1"
)


def flags(devices: int) -> str:
  """Returns XLA's flags of a process with this many simulated devices.

  They are part of the key of a cached program: workers and subprocesses with
  as many devices have the same.
  """
  return f"{FLAGS} --xla_force_host_platform_device_count={devices}"


def environment(devices: int) -> dict[str, str]:
  """Returns the environment of a process with this many simulated devices.

  It keeps every program that it compiles: its test starts others that run the
  same.
  """
  return os.environ | {
    "XLA_FLAGS": flags(devices),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
  }
