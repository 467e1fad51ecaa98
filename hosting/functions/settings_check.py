"""What an app says about its settings when it starts, beyond the values that `load_settings` refuses.

A setting that nothing reads and a model that is half configured are warnings: both may be meant for code of the app's own.
"""

import logging
import re
from collections.abc import Mapping

from hosting.models import missing_setting
from hosting.settings import ConfigurationError, Settings
from hosting.tasks.host import TaskOptions

__all__ = ["check_settings", "known_settings", "unknown_settings"]

_log = logging.getLogger(__name__)

_PREFIXES = ("HOSTING_", "TASKS_")
"""Names that begin so are ours. Other groups of settings belong to Azure, to OpenTelemetry or to a model's client."""
_RECOVERY = "TASKS_RECOVERY_SCHEDULE"
_SCHEDULES = {"HOSTING_RETENTION_SCHEDULE": 'docs/deploy.md, "App settings"', _RECOVERY: 'docs/tasks.md, "Time"'}
# NCRONTAB of five or six fields, a time span, or the setting that holds one. Not compiled before one is set.
_SCHEDULE = r"\s*(?:[-\w*/,]+(?:\s+[-\w*/,]+){4,5}|(?:\d+\.)?\d+(?::\d+){1,2}|%[^%\s]+%)\s*"


def check_settings(env: Mapping[str, str]) -> None:
    """Log what looks like a mistake in `env`: one line for all unknown names, one for the model. No value is in them.

    Raises ConfigurationError for a schedule that is none: the Functions host would only name the function, not the setting.
    """
    for name, where in _SCHEDULES.items():
        if env.get(name) and not re.fullmatch(_SCHEDULE, env[name], re.ASCII):
            raise ConfigurationError(f"{name} takes NCRONTAB, as in 0 */5 * * * *, or a time span. See {where}.")
    if unknown := unknown_settings(env):
        said = ", ".join(f"{name} (did you mean {near}?)" if near else name for name, near in unknown.items())
        _log.warning('Settings that nothing in hosting/ reads: %s. See docs/deploy.md, "App settings".', said)
    if missing := missing_setting(env):
        _log.warning("No model can be called with these settings: %s", missing)


def known_settings() -> frozenset[str]:
    """Every setting with one of our prefixes that some code reads."""
    own = {str(field.alias) for field in Settings.model_fields.values()}
    return frozenset(name for name in (*own, *TaskOptions.settings(), _RECOVERY) if name.startswith(_PREFIXES))


def unknown_settings(env: Mapping[str, str]) -> dict[str, str | None]:
    """Names in `env` with one of our prefixes, in any case, that nothing reads; each with the known one that is most like it.

    An empty value counts as unset, as everywhere.
    """
    ours = [name for name, value in env.items() if value and name.upper().startswith(_PREFIXES)]
    known = known_settings() if ours else frozenset[str]()
    return {name: _nearest(name.upper(), known) for name in sorted(ours) if name not in known}


def _nearest(name: str, known: frozenset[str]) -> str | None:
    from difflib import get_close_matches  # only a mistake needs it

    # Without the prefix: with it, all names would be much alike.
    prefix = next(prefix for prefix in _PREFIXES if name.startswith(prefix))
    rests = [other.removeprefix(prefix) for other in sorted(known) if other.startswith(prefix)]
    found = get_close_matches(name.removeprefix(prefix), rests, n=1)
    return prefix + found[0] if found else None
