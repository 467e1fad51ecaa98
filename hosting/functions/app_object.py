"""The app object of `agent_app`: a Functions app that also takes the handlers of responses and of invocations."""

import azure.functions as func

from hosting.functions.durable_client import DurableApp
from hosting.server.handler import ResponseHandler
from hosting.server.invocations import InvocationHandler, Invocations
from hosting.server.targets import Acceptor, Targets

__all__ = ["AgentApp"]


class AgentApp(DurableApp):
    """A Functions app. Add functions of your own.

    An app that was made without an agent answers the Responses API with its own handler:

    @app.response_handler
    async def answer(request, context: ResponseContext, cancellation_signal: asyncio.Event):
        return TextResponse(context, request, text="Hello")

    Any app can have one handler for each route of invocations:

    @app.invoke_handler
    async def invoke(request: InvocationRequest) -> dict: ...

    What handlers get and may return is said in `hosting.server.handler` and `hosting.server.invocations`. Each decorator gives
    back its function, and raises TypeError for one with the wrong signature.
    """

    def __init__(self, targets: Targets, invocations: Invocations) -> None:
        super().__init__(http_auth_level=func.AuthLevel.ANONYMOUS)
        self._targets = targets
        self._invocations = invocations

    def response_handler[Handler: ResponseHandler](self, handler: Handler) -> Handler:
        """Answer every turn of the Responses API with it. The last one counts. ValueError in an app that hosts an agent."""
        self._targets.register_handler(handler)
        return handler

    def response_acceptor[Function: Acceptor](self, acceptor: Function) -> Function:
        """Have it say what a background turn that waits behind another one is answered with, instead of the stored response:
        `(request, response) -> body`. When it raises, that is logged and the stored response is the answer."""
        self._targets.acceptor = acceptor
        return acceptor

    def invoke_handler[Handler: InvocationHandler](self, handler: Handler) -> Handler:
        """Serve `POST /v1/invocations` with it; without one that is 501. ValueError for a second one."""
        self._invocations.register("invoke", handler)
        return handler

    def get_invocation_handler[Handler: InvocationHandler](self, handler: Handler) -> Handler:
        """Serve `GET /v1/invocations/{invocation_id}` with it; without one that is 404. ValueError for a second one."""
        self._invocations.register("get", handler)
        return handler

    def cancel_invocation_handler[Handler: InvocationHandler](self, handler: Handler) -> Handler:
        """Serve `POST /v1/invocations/{invocation_id}/cancel` with it; without one that is 404. ValueError for a second one."""
        self._invocations.register("cancel", handler)
        return handler
