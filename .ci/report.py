"""Prints what a run of CI took: seconds of each group, the slowest tests.

Usage: python3 report.py FOLDER, which holds `groups` (lines of a group's name,
its share in minutes and the seconds it took) and a JUnit file a group.
"""

import pathlib
import sys
from xml.etree import ElementTree

SLOWEST = 20


def main(folder: pathlib.Path) -> None:
  """Prints the table of groups and the slowest tests of all of them."""
  cases = []
  print("\nseconds   share  tests  group")
  for line in (folder / "groups").read_text().splitlines():
    name, minutes, seconds = line.split()
    found = tests_of(folder / f"{name}.xml")
    cases += [(case_seconds, name, case) for case_seconds, case in found]
    share = 60 * int(minutes)
    beyond = "  LONGER THAN ITS SHARE" if int(seconds) > share else ""
    print(f"{seconds:>7} {share:>7} {len(found):>6}  {name}{beyond}")
  print(f"\nthe {SLOWEST} slowest tests")
  for seconds, name, case in sorted(cases, reverse=True)[:SLOWEST]:
    print(f"{seconds:7.1f} s  {name}  {case}")


def tests_of(path: pathlib.Path) -> list[tuple[float, str]]:
  """Returns seconds and names of the tests of a JUnit file; [] without one."""
  if not path.exists():
    return []
  return [
    (
      float(case.get("time", 0)),
      f"{case.get('classname')}.{case.get('name')}",
    )
    for case in ElementTree.parse(path).iter("testcase")
  ]


if __name__ == "__main__":
  main(pathlib.Path(sys.argv[1]))
