"""Log lines of libraries while they load do not reach the user."""

import os

import pytest

from transformer_zoo.cli import common

LOGGED = (
  b"WARNING: All log messages before absl::InitializeLog() is called are\n"
  b"I0000 00:00:1795272215.233456    2142 port.cc:153] oneDNN operations.\n"
  b"2026-01-02 10:11:12.345: I tensorflow/core/cpu_feature_guard.cc:182] x\n"
)


def load(file_of_user, monkeypatch):
  """Loads a gin file; meanwhile C++ and a module of the user's write."""
  from transformer_zoo import config

  def loaded(*_, **__):
    os.write(2, LOGGED)
    file_of_user()

  monkeypatch.setattr(config, "load", loaded)
  monkeypatch.setattr(config, "check_names", lambda *_, **__: {})
  arguments = type("Arguments", (), {})()
  arguments.gin_file, arguments.overrides = ["a.gin"], []
  arguments.gin_search_paths = ""
  common.load_gin(arguments, "MODEL")


def test_only_the_lines_of_libraries_are_left_out(monkeypatch, capfd):
  load(lambda: os.write(2, b"mine: I0000 is a number\n"), monkeypatch)
  assert capfd.readouterr().err == "mine: I0000 is a number\n"


def test_a_crash_shows_all(monkeypatch, capfd):
  def crash():
    raise RuntimeError

  with pytest.raises(RuntimeError):
    load(crash, monkeypatch)
  assert capfd.readouterr().err == LOGGED.decode()
