"""Levels of the loggers of packages that log what users say, so that a root logger at DEBUG is no leak.

They hold for a logger that has no level yet, so an app decides by `logging.getLogger(name).setLevel(...)`, before or after.
"""

import logging
from collections.abc import Mapping

from hosting.telemetry import content_allowed

__all__ = ["LEVELS", "set_log_levels"]

LEVELS: Mapping[str, int] = {
    # At DEBUG: names, arguments and results of functions, bodies of requests and answers, messages of MCP servers.
    **dict.fromkeys(("agent_framework", "anthropic", "mcp", "openai"), logging.INFO),
    # At DEBUG: headers, and paths with their queries.
    **dict.fromkeys(("httpcore", "httpcore2", "urllib3"), logging.INFO),
    # At INFO: the whole address of each request, with what a tool has put into its query.
    **dict.fromkeys(("httpx", "httpx2"), logging.WARNING),
}


def set_log_levels() -> None:
    """Give the loggers of packages their levels. Content may be logged on a laptop and with ENABLE_SENSITIVE_DATA=true: then
    only the one that costs is quieted. Call it after `set_up_telemetry`, which reads that setting."""
    # The SDK logs each request at INFO, and the Functions host sends INFO on to Application Insights, which bills it.
    logging.getLogger("azure.core.pipeline.policies.http_logging_policy").setLevel(logging.WARNING)
    if content_allowed():
        return
    for name, level in LEVELS.items():
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)
