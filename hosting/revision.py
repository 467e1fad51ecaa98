"""Which version of the code runs, as whoever deployed it has said.

The platform tells nobody when an update has reached all instances, so a test after a deployment may still meet the old code.
The pipeline puts the commit into `revision.txt` beside this package (.github/workflows/deploy.yml); `/readiness` and
telemetry say it. Without the file nothing is said.
"""

import re
from functools import cache
from pathlib import Path

__all__ = ["revision"]

_FILE = Path(__file__).parent.parent / "revision.txt"


@cache
def revision() -> str | None:
    """The first word of the file, up to 64 letters, digits and `._+-`; None without a file, or with anything else in it."""
    return read_revision(_FILE)


def read_revision(file: Path) -> str | None:
    """As `revision`, of any file."""
    try:
        found = re.match(r"[A-Za-z0-9._+-]{1,64}(?=\s|$)", file.read_text("utf-8", "replace"))
    except OSError:
        return None
    return found and found[0]
