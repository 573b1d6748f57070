"""Addresses of pages: normal forms, and lists of hosts and addresses."""

from collections.abc import Iterable, Mapping
import json
import re

from transformer_zoo.errors import UserError

# Host -> True for all below it, or the names allowed before it; "" is itself.
Hosts = Mapping[str, bool | frozenset[str]]


def normalized(url: str) -> str:
  """Returns the address that all copies of a page share.

  Without scheme, `www.`, feed or campaign parameters and last slash, as TFDS
  does it (`c4_utils.normalize_url`).
  """
  url = re.sub(r"https?://(www\.)?", "", url)
  return re.sub(r"\?(utm_|ref|feed).*", "", url).rstrip("/")


def host(url: str) -> str:
  """Returns the name of the host, in lower case and without `www.`."""
  name = re.split(r"[/?#:]", normalized(url), maxsplit=1)[0]
  return name.lower().removeprefix("www.")


def is_listed(url: str, hosts: Hosts) -> bool:
  """Whether the host of `url`, or a domain that it is below, is listed."""
  labels = host(url).split(".")
  for start in range(len(labels)):
    allowed = hosts.get(".".join(labels[start:]))
    if allowed is not None:
      return allowed is True or ".".join(labels[:start]) in allowed
  return False


def read_hosts(content: str, path: str) -> Hosts:
  """Reads a list of hosts.

  Args:
    content: one host a line; or, as the RealNews list has it, a JSON object
      from domain to true or to a list of the names allowed before it.
    path: The path of the file, for errors.

  Raises:
    UserError: it is neither, or is empty.
  """
  if content.lstrip().startswith("{"):
    hosts = _hosts_of_json(content, path)
  else:
    hosts = {
      host(line.strip()): True for line in content.split("\n") if line.strip()
    }
  if not hosts:
    raise UserError(f"The list of hosts {path!r} is empty.")
  return hosts


def _hosts_of_json(content: str, path: str) -> Hosts:
  try:
    hosts = json.loads(content)
    return {
      domain.lower(): allowed if allowed is True else _below(allowed)
      for domain, allowed in hosts.items()
    }
  except (ValueError, TypeError, AttributeError, RecursionError) as error:
    raise UserError(
      f"The list of hosts {path!r} is neither one host a line nor a JSON "
      "object from domain to true or a list of names."
    ) from error


def _below(names: Iterable[str]) -> frozenset[str]:
  return frozenset("" if name == "www" else name.lower() for name in names)
