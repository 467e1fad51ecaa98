import base64
import json
import logging
from typing import Any

import pytest

from hosting.identity import Caller, Identity, NotAuthenticated
from hosting.keys import mint_key
from hosting.settings import ConfigurationError, load_settings

LAPTOP = {"AZURE_FUNCTIONS_ENVIRONMENT": "Development"}


def identity(**env: str) -> Identity:
    return Identity(load_settings(env))


def principal(**claims: str) -> dict[str, str]:
    content: dict[str, Any] = {"auth_typ": "aad", "claims": [{"typ": typ, "val": val} for typ, val in claims.items()]}
    return {"x-ms-client-principal": base64.b64encode(json.dumps(content).encode()).decode()}


def test_a_laptop_without_keys_lets_everybody_in() -> None:
    assert identity(**LAPTOP).caller({"authorization": "Bearer anything"}) == Caller("development")


@pytest.mark.parametrize("env", [{}, {"AZURE_FUNCTIONS_ENVIRONMENT": "Production"}])
def test_outside_development_nobody_gets_in_without_a_key(env: dict[str, str]) -> None:
    with pytest.raises(NotAuthenticated):
        identity(**env).caller({})


@pytest.mark.parametrize("sign", ["WEBSITE_INSTANCE_ID", "WEBSITE_SKU"])
def test_development_mode_is_refused_in_azure_even_if_the_setting_says_so(sign: str) -> None:
    with pytest.raises(NotAuthenticated):
        identity(**LAPTOP, **{sign: "1"}).caller({})


def test_a_configured_key_ends_development_mode() -> None:
    _, kept = mint_key("contoso")
    with pytest.raises(NotAuthenticated):
        identity(**LAPTOP, HOSTING_API_KEYS=kept.entry).caller({})


def test_a_bearer_key_names_the_tenant() -> None:
    key, kept = mint_key("contoso", "ada")
    assert identity(HOSTING_API_KEYS=kept.entry).caller({"authorization": f"Bearer {key}"}) == Caller(
        "key:contoso", "ada"
    )


def test_an_azure_openai_client_may_send_the_key_as_api_key() -> None:
    key, kept = mint_key("contoso")
    assert identity(HOSTING_API_KEYS=kept.entry).caller({"api-key": key}).tenant == "key:contoso"


@pytest.mark.parametrize("value", ["Basic {key}", "Bearer", "Bearer ", "{key}", "Bearer x{key}"])
def test_another_form_of_the_header_is_no_key(value: str) -> None:
    key, kept = mint_key("contoso")
    with pytest.raises(NotAuthenticated):
        identity(HOSTING_API_KEYS=kept.entry).caller({"authorization": value.format(key=key)})


def test_easy_auth_names_tenant_and_user() -> None:
    caller = identity(WEBSITE_AUTH_ENABLED="True").caller(principal(tid="t-1", oid="u-1"))
    assert caller == Caller("tid:t-1", "u-1")


def test_a_provider_without_tenants_is_the_tenant() -> None:
    assert identity(WEBSITE_AUTH_ENABLED="True").caller(principal(sub="u-1")) == Caller("idp:aad", "u-1")


def test_forged_easy_auth_headers_are_ignored_and_logged_while_easy_auth_is_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(NotAuthenticated):
        identity().caller(principal(tid="t-1", oid="u-1"))
    assert "Easy Auth is off" in caplog.text


def test_forged_easy_auth_headers_do_not_change_who_a_key_belongs_to() -> None:
    key, kept = mint_key("contoso")
    headers = {**principal(tid="victim", oid="u-1"), "authorization": f"Bearer {key}"}
    assert identity(HOSTING_API_KEYS=kept.entry).caller(headers).tenant == "key:contoso"


@pytest.mark.parametrize(
    "headers",
    [
        {"x-ms-client-principal-id": "u-1"},
        {"x-ms-client-principal": "not base64!"},
        {"x-ms-client-principal": base64.b64encode(b"[]").decode()},
        {"x-ms-client-principal": base64.b64encode(b'{"claims": [1]}').decode()},
        {"x-ms-client-principal": base64.b64encode(b'{"claims": null}').decode()},
        {"x-ms-client-principal": base64.b64encode(b"[" * 100_000).decode()},
        principal(tid="t-1"),
        principal(),
    ],
)
def test_partial_or_broken_easy_auth_headers_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(NotAuthenticated):
        identity(WEBSITE_AUTH_ENABLED="True").caller(headers)


def test_easy_auth_on_a_laptop_does_not_open_development_mode() -> None:
    with pytest.raises(NotAuthenticated):
        identity(**LAPTOP, WEBSITE_AUTH_ENABLED="True").caller({})


def test_the_tenant_of_a_key_and_of_a_claim_never_meet() -> None:
    key, kept = mint_key("contoso")
    both = identity(HOSTING_API_KEYS=kept.entry, WEBSITE_AUTH_ENABLED="True")
    assert both.caller({"authorization": f"Bearer {key}"}) != both.caller(principal(tid="contoso", oid="x"))


def test_malformed_keys_stop_the_app_from_loading() -> None:
    with pytest.raises(ConfigurationError, match="HOSTING_API_KEYS"):
        identity(HOSTING_API_KEYS="oops")


@pytest.mark.parametrize(
    ("site", "let_in"), [("cross-site", False), ("same-site", False), ("same-origin", True), ("none", True)]
)
def test_on_a_laptop_pages_of_other_sites_are_not_let_in(site: str, let_in: bool) -> None:
    identity = Identity(load_settings({"AZURE_FUNCTIONS_ENVIRONMENT": "Development"}))
    if let_in:
        assert identity.caller({"sec-fetch-site": site}).tenant == "development"
    else:
        with pytest.raises(NotAuthenticated):
            identity.caller({"sec-fetch-site": site})
