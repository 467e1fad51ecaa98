"""A research agent as an app: the same two lines as in the template's function_app.py, with an agent of your own kind."""

from researcher import Researcher

from hosting.functions import agent_app
from hosting.server import ResponsesServerOptions
from hosting.state import AgentState

app = agent_app(
    AgentState(Researcher),
    options=ResponsesServerOptions(
        resilient_background=True,  # a run whose machine dies is run again elsewhere
        steerable_conversations=True,  # a new message ends the current run early and takes over
    ),
)
