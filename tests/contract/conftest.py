"""Fixtures of the contract suites that start something: once per run, whichever files ask for it."""

from tests.contract.task_fixtures import tasks_host, world

__all__ = ["tasks_host", "world"]
