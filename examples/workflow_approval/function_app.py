"""A workflow as an app: the same two lines as for an agent. Each request gets a workflow of its own."""

from refunds import create_workflow

from hosting.functions import agent_app
from hosting.server import ResponsesServerOptions
from hosting.state import WorkflowState

app = agent_app(
    WorkflowState(create_workflow, cache_target=False),
    options=ResponsesServerOptions(resilient_background=True, default_model="refunds"),
)
