"""Two agents behind one endpoint: `model` in a request chooses. One that names none gets the first."""

from writing import create_critic, create_writer

from hosting.functions import agent_app
from hosting.server import ResponsesServerOptions
from hosting.state import AgentState

app = agent_app(
    {"writer": AgentState(create_writer), "critic": AgentState(create_critic)},
    options=ResponsesServerOptions(resilient_background=True, steerable_conversations=True),
)
