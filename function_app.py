"""The app you edit: put your agent into `create_agent`. Everything else is served by `hosting/`.

Run it with `make run`, deploy it with `azd up`, call it with any OpenAI client.
"""

from agent_framework import Agent, ChatOptions

from hosting.functions import agent_app
from hosting.server import ResponsesServerOptions
from hosting.state import AgentState


def create_agent() -> Agent:
    """Your agent: any agent-framework agent, with your instructions, tools and model.

    It is called once a process, at the first request, so that starting an instance stays cheap: import what is heavy here.
    """
    from hosting.models import create_chat_client
    from hosting.state import TableHistoryProvider

    client = create_chat_client()  # AZURE_OPENAI_ENDPOINT + AZURE_OPENAI_MODEL, or OPENAI_API_KEY + OPENAI_MODEL
    if client is None:  # no model configured: an offline agent that echoes, and follows the directives in its docstring
        from demo_agent import create_demo_chat_client

        client = create_demo_chat_client()
    return Agent(
        client=client,
        name="assistant",
        instructions="You are a helpful assistant.",
        # Keeps the conversation in Table Storage, a few rows a turn. Without it, the whole conversation is rewritten
        # with every turn, inside the session.
        context_providers=[TableHistoryProvider()],
        default_options=ChatOptions(store=False),  # the model's service need not keep the conversation too
    )


app = agent_app(
    AgentState(create_agent),
    options=ResponsesServerOptions(
        resilient_background=True,  # a background run whose machine dies is run again elsewhere
        steerable_conversations=True,  # a new message to a running conversation waits its turn and ends the current one
    ),
)
