"""The app's storage account, opened by a process that is not the app."""

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from hosting.errors import ConfigurationError
from hosting.settings import load_settings
from hosting.storage import AppendBlobs, Store, connect, connect_append_blobs, storage_address
from hosting.tasks.engine import Key
from hosting.tasks.host import Engine, TaskOptions

__all__ = ["Account", "open_account", "read_settings"]


@dataclass(frozen=True, slots=True)
class Account:
    """What the commands work on. `engine` changes the records of tasks and runs none."""

    name: str
    """Where all of it lies, for a person to check."""
    store: Store
    blobs: AppendBlobs
    engine: Engine


class _LeftToTheApp:
    """The driver of a process that runs nothing: the app's recovery scan finds what there is to do, within a minute or so."""

    async def ensure(self, key: Key, activation: int, generation: int) -> None:
        pass


@asynccontextmanager
async def open_account(env: Mapping[str, str]) -> AsyncGenerator[Account]:
    """The account that these settings name. No network before the first call. Raises ConfigurationError."""
    settings, options = load_settings(env), TaskOptions.from_environment(env)
    connection, container = settings.storage_connection, settings.container
    address = storage_address(env, connection)
    store = connect(env, name=connection, table=settings.table, container=container)
    blobs = connect_append_blobs(env, name=connection, container=container)
    try:
        name = f"{address}, table {settings.table}, container {container}"
        yield Account(name, store, blobs, Engine(store, _LeftToTheApp(), options=options))
    finally:
        await blobs.close()
        await store.close()


def read_settings(file: str | None) -> Mapping[str, str]:
    """The environment; with a file, the `Values` of it alone, as in local.settings.json. Raises ConfigurationError."""
    if file is None:
        return os.environ
    try:
        found = json.loads(Path(file).read_text("utf-8"))["Values"]
        return {name: str(value) for name, value in cast("dict[str, object]", found).items()}
    except OSError as error:
        raise ConfigurationError(f"{file} can't be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigurationError(
            f'{file} is not like local.settings.json: JSON with the settings under "Values"'
        ) from None
