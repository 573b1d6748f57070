"""`zoo`: parses the command line and hands over to one subcommand."""

import argparse
from collections.abc import Sequence
import errno
import importlib
import os
import sys
import types

from transformer_zoo import __version__
from transformer_zoo.cli import common
from transformer_zoo.data import user_modules
from transformer_zoo.errors import nearest
from transformer_zoo.errors import no_checkpoint
from transformer_zoo.errors import sentence
from transformer_zoo.errors import UserError

# The words of each command, and its module.
COMMANDS = {
  "list": "listing",
  "inspect": {
    "task": "inspect.task",
    "mixture": "inspect.mixture",
    "model": "inspect.model",
    "batch": "inspect.batch",
    "attention": "inspect.attention",
  },
  "clean": "clean",
  "prepare": "prepare",
  "precompile": "precompile",
  "train": "train",
  "evaluate": "evaluate",
  "infer": "infer",
  "edit": "edit",
  "probe": "probe",
  "convert": "convert",
  "export": "export",
  "checkpoints": "checkpoints",
  "watch": "watch",
  "ablate": "ablate",
  "report": "report",
  "train-vocabulary": "train_vocabulary",
  "doctor": "doctor",
  "demo": "demo",
}
USER_ERROR = 2
NOT_FINITE = 3
# What a shell reports for a process that SIGINT or SIGPIPE has ended.
INTERRUPTED = 130
BROKEN_PIPE = 141
_EXPECTED = (
  UserError,
  FloatingPointError,
  KeyboardInterrupt,
  BrokenPipeError,
)


class _Parser(argparse.ArgumentParser):
  """Reports a bad command line like any other bad input."""

  def __init__(self, **keywords):
    super().__init__(
      formatter_class=argparse.RawDescriptionHelpFormatter,
      allow_abbrev=False,
      **keywords,
    )

  def error(self, message):
    raise UserError(f"{message} (see `{self.prog} --help`)")


def main(argv: Sequence[str] | None = None) -> int:
  """Runs `zoo`.

  Args:
    argv: The arguments; the process's if None.

  Returns:
    The exit code: 0, 2 for bad input, 3 for a loss that is not finite, 4 for a
    precompiled program that does not fit, 130 for Ctrl-C; a run that was asked
    to stop by SIGTERM leaves by itself.
  """
  try:
    with common.ended_together(_told, _EXPECTED):
      code = _dispatch(sys.argv[1:] if argv is None else argv)
      sys.stdout.flush()
  except _EXPECTED as error:
    return _told(error)
  return code


def _told(error: BaseException) -> int:
  """Prints what is wrong; the exit code."""
  match error:
    case BrokenPipeError():
      # `zoo list tasks | head`: nothing is left to write to, at exit as well.
      os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
      return BROKEN_PIPE
    case KeyboardInterrupt():
      print("zoo: interrupted", file=sys.stderr)
      return INTERRUPTED
  print(f"zoo: error: {sentence(error)}", file=sys.stderr)
  return USER_ERROR if isinstance(error, UserError) else NOT_FINITE


def module_of(name: str) -> types.ModuleType:
  """Imports the module of a command."""
  return importlib.import_module(f"transformer_zoo.cli.{name}")


def build_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
  """Builds the parser of the command line.

  Args:
    words: The command line. The subcommand that it begins with is added alone,
      so that no other is imported; by default all are.
  """
  parser = _Parser(
    prog="zoo",
    description="Controlled experiments on how Transformers transfer.",
    epilog="example:\n  zoo ablate quickstart",
  )
  parser.add_argument("--version", action="version", version=__version__)
  _add_commands(parser, COMMANDS, words)
  return parser


def _add_commands(
  parser: argparse.ArgumentParser, commands: dict, words: Sequence[str]
) -> None:
  if words and words[0] in commands:
    commands = {words[0]: commands[words[0]]}
  subparsers = parser.add_subparsers(
    metavar="COMMAND", required=True, parser_class=_Parser
  )
  for name, command in commands.items():
    if isinstance(command, dict):
      group = subparsers.add_parser(
        name, help=f"{name} one of: {', '.join(command)}"
      )
      group.epilog = "example:\n  zoo inspect task mini_sst2 -n 2"
      _add_commands(group, command, words[1:])
      continue
    command = module_of(command)
    sub = subparsers.add_parser(
      name,
      help=command.SUMMARY,
      description=command.__doc__,
      epilog=f"example:\n  {command.EXAMPLE}",
    )
    command.add_arguments(sub)
    sub.set_defaults(run=command.run, refuse=sub.error)


def _original(error: OSError) -> OSError:
  """The error of the system, which gin raises again without its number."""
  while error.errno is None and isinstance(error.__context__, OSError):
    error = error.__context__
  return error


# What is wrong with a path, not with the program.
_UNUSABLE = (
  *(errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG),
  *(errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS),
)


def _dispatch(argv: Sequence[str]) -> int:
  """Returns the exit code: 0 unless the command has another."""
  words = [word for word in argv if not word.startswith("--gin.")]
  overrides = [
    word.removeprefix("--gin.") for word in argv if word.startswith("--gin.")
  ]
  if words and not words[0].startswith("-") and words[0] not in COMMANDS:
    raise UserError(
      f"there is no command {words[0]!r}{nearest(words[0], COMMANDS)}"
    )
  parser = build_parser(words)
  if "_ARGCOMPLETE" in os.environ:  # a shell asks at the Tab key
    import argcomplete

    argcomplete.autocomplete(parser)
  arguments, arguments.more = parser.parse_known_args(words)
  if arguments.more and not hasattr(arguments, "takes_more"):
    arguments.refuse(f"unrecognized arguments: {' '.join(arguments.more)}")
  if overrides and not hasattr(arguments, "gin_file"):
    raise UserError(f"this command takes no --gin.{overrides[0]}")
  arguments.overrides = overrides
  for folder in getattr(arguments, "data_dir", []):
    if not os.path.isdir(folder):
      raise UserError(f"there is no data folder {folder!r}")
  for name in ("checkpoint", "checkpoints", "source"):
    given = getattr(arguments, name, [])
    for path in [given] if isinstance(given, str) else given:
      if "://" not in path and not os.path.exists(path):
        raise no_checkpoint(path)
  if getattr(arguments, "data_dir", []):
    os.environ["ZOO_DATA_DIR"] = os.pathsep.join(arguments.data_dir)
  if getattr(arguments, "module", []):
    os.environ[user_modules.VARIABLE] = ",".join(arguments.module)
  if getattr(arguments, "skip_bad_rows", False):
    os.environ["ZOO_SKIP_BAD_ROWS"] = "1"
  user_modules.find_in_current_folder()
  if hasattr(arguments, "process_count"):
    common.start_processes(arguments)
  try:
    return arguments.run(arguments) or 0
  except OSError as raised:
    error = _original(raised)
    if error.errno in _UNUSABLE and error.filename is not None:
      raise UserError(
        f"{str(error.filename)!r} cannot be used ({error.strerror}); name "
        "another path, or make it yours"
      ) from error
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
      raise
    raise UserError(
      f"{error.strerror}: make room and start the same command again; what has "
      "been saved stays"
    ) from error


if __name__ == "__main__":
  sys.exit(main())
