"""Letters that a client folds before it resolves a name: none of them hides a host inside a network.

Other forms of such hosts are in test_bodies.py and tests/unit/test_responses_media.py.
"""

from collections.abc import Iterator
from encodings.idna import nameprep

import pytest

from hosting.responses import InvalidRequest
from hosting.responses.media import check_url

_LETTERS = (*range(0x80, 0x20000), *range(0xE0000, 0xE1000))


def _folded(letter: str) -> str | None:
    """What Python's own resolver makes of a letter; None for what it refuses."""
    try:
        return nameprep(letter)
    except UnicodeError:
        return None


def _disguised(letter: str, means: str) -> Iterator[str]:
    """Hosts that are internal for who reads `letter` as `means`."""
    if not means:
        yield from (f"169.254.169.{letter}254", f"metadata.google.inter{letter}nal", f"x.localhost{letter}")
    elif means == ".":
        yield from (f"169{letter}254.169.254", f"metadata.google{letter}internal")
    elif means in "localhost":
        yield f"x.{'localhost'.replace(means, letter, 1)}"
    elif means.isdigit():
        yield f"10.0.0.{letter}"


def _passes(host: str) -> bool:
    try:
        check_url(f"http://{host}/", "x")
    except InvalidRequest:
        return False
    return True


def test_no_letter_that_is_folded_hides_a_host() -> None:
    hosts = [
        host
        for letter in map(chr, _LETTERS)
        if (means := _folded(letter)) is not None and means != letter and means.isascii()
        for host in _disguised(letter, means)
    ]
    assert len(hosts) > 400
    assert [ascii(host) for host in hosts if _passes(host)] == []


@pytest.mark.parametrize("letter", ["\U0001ccf0", "\U0001cce1", "\ua7f1", "\U000e0fff", "\u0378"], ids=ascii)
def test_a_letter_that_only_newer_versions_of_unicode_know_may_mean_anything(letter: str) -> None:
    assert not _passes(f"10.0.0.{letter}")
    assert not _passes(f"{letter}.example.com")


@pytest.mark.parametrize(
    "host", ["münchen.example.com", "пример.example", "例え.example.jp", "σς.example.gr", "✓.example"]
)
def test_names_in_other_alphabets_pass(host: str) -> None:
    assert _passes(host)


@pytest.mark.parametrize(
    "host",
    [
        "168.63.129.16",
        "0xa83f8110",
        "168.4161808",
        "[::ffff:168.63.129.16]",
        "kubernetes.default.svc",
        "localhost.localdomain",
    ],
)
def test_hosts_of_the_platform_are_inside(host: str) -> None:
    """168.63.129.16 answers on every machine in Azure, and is a public address by its number."""
    assert not _passes(host)
