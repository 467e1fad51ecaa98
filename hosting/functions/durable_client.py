"""A Durable client for all code of the app, from whichever function a process runs first.

Only a binding says where Durable listens, and an injected client is closed when its function returns, which for a streamed
answer is before the body is sent. So the app puts the binding on every function that can carry one (HTTP, timer, activity;
the app's own and those that a user adds), keeps the text of it, and opens one client per process from that.
"""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import azure.durable_functions as df
import azure.functions as func
from azure.durable_functions.decorators.metadata import DurableClient

if TYPE_CHECKING:
    from azure.functions.decorators.function_app import Function

__all__ = ["DurableApp", "DurableClientHolder", "NoDurableClient"]

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
        self._config: str | None = None
        self._client: df.DurableFunctionsClient | None = None

    def learn(self, config: str) -> None:
        """Take over the text of a binding. Where Durable listens can change when the host restarts."""
        if config != self._config:
            self._config, self._client = config, None

    def get(self) -> df.DurableFunctionsClient:
        """The client; call it inside the event loop. Raises NoDurableClient."""
        if self._client is None:
            if self._config is None:
                raise NoDurableClient("no function with a Durable client binding has run in this process yet")
            self._client = df.DurableFunctionsClient(self._config)
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


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
