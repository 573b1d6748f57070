"""Addresses, hosts and their lists."""

import pytest

from transformer_zoo.cleaning import addresses
from transformer_zoo.errors import UserError


@pytest.mark.parametrize(
  "url",
  [
    "http://www.example.org/a/",
    "https://example.org/a",
    "https://example.org/a?utm_source=b",
    "http://example.org/a?ref=c",
  ],
)
def test_copies_of_a_page_have_one_address(url):
  assert addresses.normalized(url) == "example.org/a"


def test_host():
  assert addresses.host("https://WWW.Example.org:80/a?b#c") == "example.org"
  assert addresses.host("") == ""


HOSTS = [
  ("http://www.news.org/a", True),
  ("http://local.news.org/a", True),
  ("http://badnews.org/a", False),
  ("http://example.com/a", False),
  ("http://blog.example.com/a", True),
  ("http://old.blog.example.com/a", False),
  ("http://paper.co.uk/a", True),
  ("http://sports.paper.co.uk/a", False),
  ("", False),
]


@pytest.mark.parametrize("url, listed", HOSTS)
def test_realnews_list(url, listed):
  content = (
    '{"news.org": true, "example.com": ["blog"], "paper.co.uk": ["", "www"]}'
  )
  hosts = addresses.read_hosts(content, "hosts.json")
  assert addresses.is_listed(url, hosts) == listed


@pytest.mark.parametrize("url, listed", HOSTS[:3])
def test_a_host_a_line(url, listed):
  hosts = addresses.read_hosts("News.org\n\nwww.example.net\r\n", "hosts")
  assert addresses.is_listed(url, hosts) == listed
  assert addresses.is_listed("http://example.net", hosts)


@pytest.mark.parametrize(
  "content, message",
  [
    ("\n", "list of hosts 'h' is empty"),
    ('{"a": 1}', "list of hosts 'h' is neither one host a line nor a JSON"),
    ("{" + '"a": [' * 5000, "list of hosts 'h' is neither one host a line"),
    ('{"a": ', "list of hosts 'h' is neither one host a line nor a JSON"),
  ],
)
def test_a_bad_list_is_told(content, message):
  with pytest.raises(UserError, match=message):
    addresses.read_hosts(content, "h")
