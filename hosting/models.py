"""Which model the app talks to, from the environment: Azure OpenAI, OpenAI, or none (then the app runs the demo agent).

    Azure OpenAI   AZURE_OPENAI_ENDPOINT, and the deployment as AZURE_OPENAI_MODEL (or AZURE_OPENAI_DEPLOYMENT);
                   AZURE_OPENAI_API_KEY, or without it the app's managed identity, or `az login` on a laptop
    OpenAI         OPENAI_API_KEY and OPENAI_MODEL; OPENAI_BASE_URL for a server that speaks the same protocol

Azure wins when both are complete. A group that is begun but not complete is an error, not a reason to run the demo agent;
only a lone OPENAI_API_KEY on a laptop is none, since it may be there for other programs.
The names are agent-framework's own, except AZURE_OPENAI_DEPLOYMENT. Its AZURE_OPENAI_CHAT_MODEL and OPENAI_CHAT_MODEL
count too, and AZURE_OPENAI_API_VERSION and OPENAI_ORG_ID are read by the framework itself.
"""

import importlib
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hosting.settings import ConfigurationError

if TYPE_CHECKING:
    from agent_framework import BaseChatClient

__all__ = ["create_chat_client", "model_arguments"]

_log = logging.getLogger(__name__)

_AZURE_MODEL = ("AZURE_OPENAI_CHAT_MODEL", "AZURE_OPENAI_MODEL", "AZURE_OPENAI_DEPLOYMENT")
_OPENAI_MODEL = ("OPENAI_CHAT_MODEL", "OPENAI_MODEL")


def create_chat_client(env: Mapping[str, str] | None = None) -> "BaseChatClient[Any] | None":
    """The chat client of the configured model; None when the environment (or `env`) configures none.

    The package for it is imported here, takes seconds, and is needed for nothing else: call this where the agent is
    made, not at import. History is kept by this app, so give the agent `default_options={"store": False}`; the model's
    service would otherwise keep a second one.

    Raises ConfigurationError when a setting is missing, and RuntimeError when the package is not installed.
    """
    arguments: dict[str, Any] | None = model_arguments(env)
    if arguments is None:
        return None
    try:
        client = importlib.import_module("agent_framework.openai").OpenAIChatClient
    except ModuleNotFoundError as error:
        raise RuntimeError(
            f"A model is configured but {error.name or 'its package'} is not installed. "
            "Run: pip install -r requirements-model.txt"
        ) from error
    if "azure_endpoint" in arguments and "api_key" not in arguments:
        from azure.identity.aio import DefaultAzureCredential

        arguments["credential"] = DefaultAzureCredential()  # lives as long as the process, as the client does
    return client(**arguments)


def model_arguments(env: Mapping[str, str] | None = None) -> dict[str, str] | None:
    """The arguments of OpenAIChatClient that the environment gives, but for the credential; None for no model.

    Imports nothing and connects nowhere, so an app can check its settings when it starts. Empty values count as unset.
    Raises ConfigurationError that names the missing setting.
    """
    values = os.environ if env is None else env

    def given(*names: str) -> str:
        return next((name for name in names if values.get(name, "").strip()), "")

    def first(*names: str) -> str:
        return values.get(given(*names), "").strip()

    endpoint, model, key = first("AZURE_OPENAI_ENDPOINT"), first(*_AZURE_MODEL), first("AZURE_OPENAI_API_KEY")
    if endpoint or model or key:
        if not endpoint:
            raise _missing("AZURE_OPENAI_ENDPOINT", given(*_AZURE_MODEL, "AZURE_OPENAI_API_KEY"))
        if not model:
            raise _missing("AZURE_OPENAI_MODEL", "AZURE_OPENAI_ENDPOINT")
        # The portal shows the endpoint with and without the path that the client adds.
        address = endpoint.rstrip("/").removesuffix("/openai/v1")
        return {"model": model, "azure_endpoint": address} | ({"api_key": key} if key else {})

    model, key, base = first(*_OPENAI_MODEL), first("OPENAI_API_KEY"), first("OPENAI_BASE_URL")
    if not (model or key):
        return None
    if not key:
        raise _missing("OPENAI_API_KEY", given(*_OPENAI_MODEL))
    if not model:
        if values.get("AZURE_FUNCTIONS_ENVIRONMENT") == "Development":
            # Many laptops have the key for other programs. Deployed, it can only be a forgotten setting.
            _log.warning("OPENAI_API_KEY is set but OPENAI_MODEL is not: the demo agent answers until you set it")
            return None
        raise _missing("OPENAI_MODEL", "OPENAI_API_KEY")
    return {"model": model, "api_key": key} | ({"base_url": base} if base else {})


def _missing(name: str, given: str) -> ConfigurationError:
    return ConfigurationError(f"{given} is set but {name} is not: set {name}, or unset {given} to run the demo agent.")
