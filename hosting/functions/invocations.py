"""The app object of `agent_app`: a Functions app that also takes the handlers of invocations."""

import azure.functions as func

from hosting.functions.durable_client import DurableApp
from hosting.server.invocations import InvocationHandler, Invocations

__all__ = ["AgentApp"]


class AgentApp(DurableApp):
    """A Functions app. Add functions of your own, and at most one handler for each route of invocations:

    @app.invoke_handler
    async def invoke(request: InvocationRequest) -> dict: ...

    What handlers get and may return is said in `hosting.server.invocations`. Each decorator gives back its function, and
    raises TypeError for one that is not async and ValueError for a second one.
    """

    def __init__(self, invocations: Invocations) -> None:
        super().__init__(http_auth_level=func.AuthLevel.ANONYMOUS)
        self._invocations = invocations

    def invoke_handler[Handler: InvocationHandler](self, handler: Handler) -> Handler:
        """Serve `POST /v1/invocations` with it; without one that is 501."""
        self._invocations.register("invoke", handler)
        return handler

    def get_invocation_handler[Handler: InvocationHandler](self, handler: Handler) -> Handler:
        """Serve `GET /v1/invocations/{invocation_id}` with it; without one that is 404."""
        self._invocations.register("get", handler)
        return handler

    def cancel_invocation_handler[Handler: InvocationHandler](self, handler: Handler) -> Handler:
        """Serve `POST /v1/invocations/{invocation_id}/cancel` with it; without one that is 404."""
        self._invocations.register("cancel", handler)
        return handler
