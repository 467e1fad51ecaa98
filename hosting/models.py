"""Which model the app talks to, from the environment: Azure OpenAI, OpenAI, or none (then the app runs the demo agent).

    Azure OpenAI   AZURE_OPENAI_ENDPOINT, and the deployment as AZURE_OPENAI_MODEL (or AZURE_OPENAI_DEPLOYMENT);
                   AZURE_OPENAI_API_KEY, or without it the app's managed identity, or `az login` on a laptop
    OpenAI         OPENAI_API_KEY and OPENAI_MODEL; OPENAI_BASE_URL for a server that speaks the same protocol

Azure wins when both are complete. A group that is begun but not complete is an error, not a reason to run the demo agent;
only OPENAI_API_KEY and OPENAI_BASE_URL without a model are none on a laptop, since they may be there for other programs.
`agent_app` logs at the start what is missing, and does not stop: an app may make its client in a way of its own.
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

__all__ = ["create_chat_client", "missing_setting", "model_arguments"]

_log = logging.getLogger(__name__)

_AZURE_MODEL = ("AZURE_OPENAI_CHAT_MODEL", "AZURE_OPENAI_MODEL", "AZURE_OPENAI_DEPLOYMENT")
_SCHEMES = ("https://", "http://")
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
        if missing := missing_setting(env):
            _log.warning("%s Until then the demo agent answers.", missing)
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
    arguments, problem = _read(values)
    if problem and not _for_other_programs(values):
        raise ConfigurationError(problem)
    return arguments


def missing_setting(env: Mapping[str, str] | None = None) -> str | None:
    """One line that names the setting without which the ones that are there make no model; None when there is none.

    As cheap as `model_arguments`, and it says more: also what a laptop may do without. No value is in it.
    """
    return _read(os.environ if env is None else env)[1]


def _read(values: Mapping[str, str]) -> tuple[dict[str, str] | None, str | None]:
    """The arguments, or what is wrong with the settings, or neither."""

    def given(*names: str) -> str:
        return next((name for name in names if values.get(name, "").strip()), "")

    def first(*names: str) -> str:
        return values.get(given(*names), "").strip()

    if begun := given("AZURE_OPENAI_ENDPOINT", *_AZURE_MODEL, "AZURE_OPENAI_API_KEY"):
        endpoint, model, key = first("AZURE_OPENAI_ENDPOINT"), first(*_AZURE_MODEL), first("AZURE_OPENAI_API_KEY")
        if not endpoint:
            return None, _missing("AZURE_OPENAI_ENDPOINT", begun)
        if not endpoint.lower().startswith(_SCHEMES):
            return None, _no_address("AZURE_OPENAI_ENDPOINT")
        if not model:
            return None, _missing("AZURE_OPENAI_MODEL", begun)
        # The portal shows the endpoint with and without the path that the client adds.
        address = endpoint.rstrip("/").removesuffix("/openai/v1")
        return {"model": model, "azure_endpoint": address} | ({"api_key": key} if key else {}), None

    if begun := given(*_OPENAI_MODEL, "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        model, key, base = first(*_OPENAI_MODEL), first("OPENAI_API_KEY"), first("OPENAI_BASE_URL")
        if base and not base.lower().startswith(_SCHEMES):
            return None, _no_address("OPENAI_BASE_URL")
        if not key:
            return None, _missing("OPENAI_API_KEY", begun)
        if not model:
            return None, _missing("OPENAI_MODEL", begun)
        return {"model": model, "api_key": key} | ({"base_url": base} if base else {}), None
    return None, None


def _for_other_programs(values: Mapping[str, str]) -> bool:
    """Whether these settings need not be meant for us: many laptops have the key. Deployed, the model can only be forgotten."""
    ours = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", *_AZURE_MODEL, *_OPENAI_MODEL)
    laptop = values.get("AZURE_FUNCTIONS_ENVIRONMENT") == "Development"
    return laptop and not any(values.get(name, "").strip() for name in ours)


def _no_address(name: str) -> str:
    return f'{name} is no https:// address. See README.md, "Put your agent in".'


def _missing(name: str, given: str) -> str:
    return f'{given} is set but {name} is not: set it too, or unset {given}. See README.md, "Put your agent in".'
