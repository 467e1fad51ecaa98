"""`make run` says how to call the app: with a key where keys are configured."""

import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.conftest import ROOT


def chosen(folder: Path, **env: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "HOSTING_API_KEYS"}
    script = ROOT / "scripts" / "choose-hint.sh"
    done = subprocess.run([script], cwd=folder, env=kept | env, capture_output=True, text=True, timeout=20, check=True)
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("settings", "env", "hint"),
    [
        (None, {}, "hint.txt"),
        ('{\n  "Values": {\n    "A": "x"\n  }\n}', {}, "hint.txt"),
        ('{\n  "Values": {\n    "HOSTING_API_KEYS": ""\n  }\n}', {}, "hint.txt"),
        ('{\n  "Values": {\n    "HOSTING_API_KEYS": "c:1:2:3"\n  }\n}', {}, "hint-with-key.txt"),
        ('{"Values": {"A": "x", "HOSTING_API_KEYS": "c:1:2:3"}}', {}, "hint-with-key.txt"),
        (None, {"HOSTING_API_KEYS": "c:1:2:3"}, "hint-with-key.txt"),
        ('{"Values": {"HOSTING_API_KEYS": "c:1:2:3"}}', {"HOSTING_API_KEYS": ""}, "hint.txt"),
    ],
)
def test_the_hint_fits_the_settings(tmp_path: Path, settings: str | None, env: dict[str, str], hint: str) -> None:
    """The environment wins over the file, as it does in devhost."""
    if settings is not None:
        (tmp_path / "local.settings.json").write_text(settings)
    assert chosen(tmp_path, **env) == f"scripts/{hint}"


@pytest.mark.parametrize("hint", ["hint.txt", "hint-with-key.txt"])
def test_a_hint_has_a_curl_line_and_python_that_compiles(hint: str) -> None:
    text = (ROOT / "scripts" / hint).read_text()
    (curl,) = [line for line in text.splitlines() if line.startswith("  curl ")]
    assert "{base_url}/v1/responses" in curl
    assert ("authorization: Bearer" in curl) == ("key" in hint)
    python = text[text.index("  from openai") : text.index("Ctrl-C")]
    compile(textwrap.dedent(python), hint, "exec")
    assert ('api_key="any"' in python) == ("key" not in hint)
