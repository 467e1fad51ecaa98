"""Runs a hook of azd as azd would, in either shell."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .bicep import ROOT

__all__ = ["HOOKS", "SHELLS", "run_hook"]

HOOKS = ROOT / "infra" / "hooks"
SHELLS: Mapping[str, list[str]] = {"sh": ["sh"], "ps1": ["pwsh", "-NoProfile", "-NonInteractive", "-File"]}
"""The twins, by the extension of their scripts."""


def run_hook(
    name: str, directory: Path = ROOT, *, extension: str = "sh", **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SHELLS[extension], str(HOOKS / f"{name}.{extension}")],
        cwd=directory,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
