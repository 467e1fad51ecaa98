"""A Durable client for all code of the app, from whichever function a process runs first.

Only a binding says where Durable listens, and an injected client is closed when its function returns, which for a streamed
answer is before the body is sent. So the app puts the binding on every function that can carry one (HTTP, timer, activity;
the app's own and those that a user adds), keeps the text of it, and opens one client per process from that.
"""

import asyncio
import functools
import inspect
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import azure.durable_functions as df
import azure.functions as func
from azure.durable_functions.decorators.metadata import DurableClient

if TYPE_CHECKING:
    from azure.functions.decorators.function_app import Function

__all__ = ["DurableApp", "DurableClientHolder", "NoDurableClient"]

_log = logging.getLogger(__name__)

_STILL_USED = 30.0
"""Seconds before a client is closed that another one has replaced: calls with it may be under way."""

_PARAMETER = "durable_client_of_this_process"
_CARRIERS = {
    "httpTrigger",
    "timerTrigger",
    "activityTrigger",
    "queueTrigger",
    "blobTrigger",
    "serviceBusTrigger",
    "eventHubTrigger",
    "eventGridTrigger",
    "cosmosDBTrigger",
}


class NoDurableClient(RuntimeError):
    """No function of this process has run yet, so it is not known where Durable listens."""


class DurableClientHolder:
    """The client of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._config: str | None = None
        self._client: df.DurableFunctionsClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._old: list[df.DurableFunctionsClient] = []
        self._closing: set[asyncio.Task[None]] = set()

    def learn(self, config: str) -> None:
        """Take over the text of a binding, from any thread. Where Durable listens can change when the host restarts; the client
        for the place before is closed after a while."""
        if config == self._config:
            return
        with self._lock:  # `get` may be making a client for the place before
            old, self._config, self._client = self._client, config, None
        if old is not None and self._loop is not None and not self._loop.is_closed():
            self._old.append(old)
            self._loop.call_soon_threadsafe(self._loop.call_later, _STILL_USED, self._begin_to_close, old)

    def get(self) -> df.DurableFunctionsClient:
        """The client; call it inside the event loop. Raises NoDurableClient."""
        with self._lock:
            if self._client is None:
                if self._config is None:
                    raise NoDurableClient("no function with a Durable client binding has run in this process yet")
                self._loop = asyncio.get_running_loop()
                self._client = df.DurableFunctionsClient(self._config)
            return self._client

    async def close(self) -> None:
        """Close the client, and those before it that are still open. A later `get` makes another one."""
        client, self._client = self._client, None
        for old in [*self._old]:
            await self._close(old)
        await asyncio.gather(*self._closing)
        if client is not None:
            await client.close()

    def _begin_to_close(self, client: df.DurableFunctionsClient) -> None:
        task = asyncio.create_task(self._close(client), name="close a Durable client")
        self._closing.add(task)  # asyncio itself keeps only weak references
        task.add_done_callback(self._closing.discard)

    async def _close(self, client: df.DurableFunctionsClient) -> None:
        if client not in self._old:
            return
        self._old.remove(client)
        try:
            await client.close()
        except Exception as error:
            _log.warning("A Durable client could not be closed: %r", error)


class DurableApp(df.DFApp):
    """A Functions app whose functions all bring the Durable client along."""

    def __init__(self, http_auth_level: func.AuthLevel = func.AuthLevel.FUNCTION) -> None:
        super().__init__(http_auth_level=http_auth_level)
        self.durable_client = DurableClientHolder()

    def get_functions(self) -> "list[Function]":
        """What the worker indexes. Called once, after the app's module has run: so all functions are there."""
        builders = cast("list[Any]", self._function_builders)
        for builder in builders:
            _carry(builder, self.durable_client.learn)
        return super().get_functions()


def _carry(builder: Any, learn: Callable[[str], None]) -> None:
    function = builder._function
    trigger = function.get_trigger()
    bindings: list[Any] = function.get_bindings()
    if trigger is None or trigger.get_binding_name() not in _CARRIERS or any(b.name == _PARAMETER for b in bindings):
        return
    function._func = _with_client(function.get_user_function(), learn)
    builder.add_binding(binding=DurableClient(name=_PARAMETER))


def _with_client(inner: Callable[..., Any], learn: Callable[[str], None]) -> Callable[..., Any]:
    """`inner` with one parameter more, which it does not see. The worker reads signature and annotations."""
    wrapper: Any
    if inspect.iscoroutinefunction(inner):

        @functools.wraps(inner)
        async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
            learn(kwargs.pop(_PARAMETER))
            return await inner(*args, **kwargs)

        wrapper = async_wrapper
    else:

        @functools.wraps(inner)
        def sync_wrapper(*args: Any, **kwargs: Any) -> Any:
            learn(kwargs.pop(_PARAMETER))
            return inner(*args, **kwargs)

        wrapper = sync_wrapper
    signature = inspect.signature(inner)
    extra = inspect.Parameter(_PARAMETER, inspect.Parameter.KEYWORD_ONLY, annotation=str)
    parameters = [*signature.parameters.values()]
    at = len(parameters) - sum(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    wrapper.__signature__ = signature.replace(parameters=[*parameters[:at], extra, *parameters[at:]])
    wrapper.__annotations__ = {**getattr(inner, "__annotations__", {}), _PARAMETER: str}
    return wrapper
