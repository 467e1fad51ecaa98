"""What a process needs that runs the engine: make one, install it, drive it, have it look for what was left, stop it.

For the triggers in `hosting.functions` and for `hosting.testing`. `hosting.tasks.local` has the driver that needs no Durable
Functions.
"""

from hosting.tasks._current import installed_engine, set_engine, swap_engine
from hosting.tasks._engine import Engine
from hosting.tasks._options import TaskOptions
from hosting.tasks._recovery import ScanReport, scan
from hosting.tasks._scan_mark import mark_scanned, take_overdue_scan
from hosting.tasks._seams import Verdict

__all__ = [
    "Engine",
    "ScanReport",
    "TaskOptions",
    "Verdict",
    "installed_engine",
    "mark_scanned",
    "scan",
    "set_engine",
    "swap_engine",
    "take_overdue_scan",
]
