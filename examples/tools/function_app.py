"""An agent with tools as an app: the same two lines as in the template's function_app.py."""

from operator_agent import create_agent

from hosting.functions import agent_app
from hosting.server import ResponsesServerOptions
from hosting.state import AgentState

app = agent_app(
    AgentState(create_agent),
    options=ResponsesServerOptions(resilient_background=True, default_model="operator"),
)
