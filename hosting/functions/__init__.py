"""The triggers: the only code that imports azure.functions and azure.durable_functions."""

from hosting.functions.app import agent_app

__all__ = ["agent_app"]
