"""The choice of the model: what the environment gives, what is refused, and what the real client's class is handed.

agent-framework-openai is optional; a stand-in takes its place where its class is called.
"""

import importlib
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from hosting.models import create_chat_client, missing_setting, model_arguments
from hosting.settings import ConfigurationError

AZURE = {"AZURE_OPENAI_ENDPOINT": "https://acme.openai.azure.com", "AZURE_OPENAI_MODEL": "gpt"}


class Client:
    """Stands in for OpenAIChatClient and keeps what it was given."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments


@pytest.fixture
def client_class(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("agent_framework.openai")
    package.OpenAIChatClient = Client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "agent_framework.openai", package)


def made(env: dict[str, str]) -> dict[str, Any]:
    client: Any = create_chat_client(env)
    assert isinstance(client, Client)
    return client.arguments


def test_nothing_set_means_no_model() -> None:
    assert model_arguments({}) is None
    assert create_chat_client({"AZURE_OPENAI_ENDPOINT": "", "OPENAI_API_KEY": " "}) is None


@pytest.mark.usefixtures("client_class")
def test_azure_with_a_key() -> None:
    assert made({**AZURE, "AZURE_OPENAI_API_KEY": "secret"}) == {
        "model": "gpt",
        "azure_endpoint": "https://acme.openai.azure.com",
        "api_key": "secret",
    }


@pytest.mark.usefixtures("client_class")
def test_azure_without_a_key_takes_the_identity() -> None:
    arguments = made(AZURE)
    assert type(arguments.pop("credential")).__module__.startswith("azure.identity.aio")
    assert arguments == {"model": "gpt", "azure_endpoint": "https://acme.openai.azure.com"}


@pytest.mark.usefixtures("client_class")
def test_plain_openai() -> None:
    assert made({"OPENAI_API_KEY": "sk-x", "OPENAI_MODEL": "gpt"}) == {"model": "gpt", "api_key": "sk-x"}


@pytest.mark.usefixtures("client_class")
def test_openai_at_another_address() -> None:
    env = {"OPENAI_API_KEY": "sk-x", "OPENAI_MODEL": "m", "OPENAI_BASE_URL": "http://localhost:1234/v1"}
    assert made(env) == {"model": "m", "api_key": "sk-x", "base_url": "http://localhost:1234/v1"}


def test_azure_wins_over_openai() -> None:
    arguments = model_arguments({**AZURE, "OPENAI_API_KEY": "sk-x", "OPENAI_MODEL": "other"})
    assert arguments == {"model": "gpt", "azure_endpoint": "https://acme.openai.azure.com"}


def test_the_deployment_name_counts_as_the_model() -> None:
    env = {"AZURE_OPENAI_ENDPOINT": "https://acme.openai.azure.com", "AZURE_OPENAI_DEPLOYMENT": "my-deployment"}
    assert (model_arguments(env) or {})["model"] == "my-deployment"


@pytest.mark.parametrize("tail", ["/", "/openai/v1", "/openai/v1/"])
def test_the_endpoint_is_taken_with_and_without_its_path(tail: str) -> None:
    env = {**AZURE, "AZURE_OPENAI_ENDPOINT": AZURE["AZURE_OPENAI_ENDPOINT"] + tail}
    assert (model_arguments(env) or {})["azure_endpoint"] == "https://acme.openai.azure.com"


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_MODEL"),
        ("AZURE_OPENAI_MODEL", "AZURE_OPENAI_ENDPOINT"),
        ("AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_ENDPOINT"),
        ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT"),
        ("OPENAI_API_KEY", "OPENAI_MODEL"),
        ("OPENAI_MODEL", "OPENAI_API_KEY"),
        ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
    ],
)
def test_half_a_configuration_names_what_is_there_and_what_is_missing(given: str, missing: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{given} is set but {missing} is not"):
        create_chat_client({given: "https://x"})


def test_without_the_package_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, *_: Any) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name="agent_framework_openai")

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(RuntimeError, match=r"pip install -r requirements-model\.txt"):
        create_chat_client({**AZURE, "AZURE_OPENAI_API_KEY": "secret"})


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_CHAT_MODEL", "AZURE_OPENAI_MODEL", "AZURE_OPENAI_DEPLOYMENT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AZURE_OPENAI_API_KEY", "OPENAI_CHAT_MODEL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    monkeypatch.setenv("OPENAI_MODEL", "gpt")
    assert model_arguments() == {"model": "gpt", "api_key": "sk-x"}


def test_importing_it_imports_no_agent_and_no_model() -> None:
    code = "import hosting.models, sys; print([m for m in sys.modules if m in ('agent_framework', 'openai', 'azure')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_lone_openai_key_on_a_laptop_is_there_for_other_programs(caplog: pytest.LogCaptureFixture) -> None:
    for env in ({"OPENAI_API_KEY": "sk-1"}, {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "https://x"}):
        laptop = {**env, "AZURE_FUNCTIONS_ENVIRONMENT": "Development"}
        caplog.clear()
        assert create_chat_client(laptop) is None
        assert "OPENAI_MODEL is not" in caplog.text
        assert "OPENAI_MODEL is not" in (missing_setting(laptop) or "")


def test_a_model_on_a_laptop_is_meant_for_the_app() -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is not"):
        model_arguments({"OPENAI_MODEL": "gpt", "AZURE_FUNCTIONS_ENVIRONMENT": "Development"})


@pytest.mark.parametrize("name", ["AZURE_OPENAI_ENDPOINT", "OPENAI_BASE_URL"])
def test_an_address_that_is_none_is_named_and_not_repeated(name: str) -> None:
    env = {"AZURE_OPENAI_MODEL": "gpt"} if name.startswith("AZURE") else {"OPENAI_MODEL": "m", "OPENAI_API_KEY": "k"}
    with pytest.raises(ConfigurationError, match=f"^{name} is no https:// address") as wrong:
        model_arguments({**env, name: "s3cr3t"})
    assert "s3cr3t" not in str(wrong.value)


def test_a_complete_model_and_none_miss_nothing() -> None:
    assert missing_setting(AZURE) is None
    assert missing_setting({}) is None
