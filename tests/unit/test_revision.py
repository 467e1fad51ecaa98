"""Which version runs: said by a file that only a deployment writes."""

from pathlib import Path

import pytest

from hosting.revision import read_revision
from hosting.server import responses_server
from hosting.server.http import Request
from tests.server_world import parsed, serve


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0f2719ef34ca0e7b4364b8daefe86b8f208111e9\n", "0f2719ef34ca0e7b4364b8daefe86b8f208111e9"),
        ("v1.2.0+dirty", "v1.2.0+dirty"),
        ("", None),
        ("\n", None),
        ("<script>", None),
        ("a" * 65, None),
        ("\x00", None),
    ],
)
def test_only_a_plain_word_is_a_revision(tmp_path: Path, text: str, expected: str | None) -> None:
    (tmp_path / "revision.txt").write_text(text)
    assert read_revision(tmp_path / "revision.txt") == expected


def test_without_the_file_there_is_none(tmp_path: Path) -> None:
    assert read_revision(tmp_path / "revision.txt") is None


async def test_readiness_says_which_version_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses_server, "revision", lambda: "v2")
    async with serve() as world:
        answer = await world.server.handle("readiness", Request("GET", "/readiness", {}, {}))
    assert parsed(answer) == {"status": "healthy", "revision": "v2"}
