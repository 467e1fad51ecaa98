import pytest

from hosting.responses import ApiError, InvalidRequest

ERRORS = [
    (ApiError.previous_response_not_found("resp_1"), 400, "previous_response_not_found", "previous_response_id"),
    (ApiError.malformed_id("response_id", "abc"), 400, "invalid_value", "response_id"),
    (ApiError.invalid_value("limit", "Too big."), 400, "invalid_value", "limit"),
    (ApiError.unsupported("background", "No."), 400, "unsupported_parameter", "background"),
    (ApiError.model_not_found("gpt-9"), 400, "model_not_found", "model"),
    (ApiError.not_streamable(), 400, None, "stream"),
    (ApiError.not_cancellable(), 400, None, "response_id"),
    (ApiError.in_flight(), 400, None, "response_id"),
    (ApiError.reference_not_found("msg_1"), 400, None, "input"),
    (ApiError.invalid_api_key(), 401, "invalid_api_key", None),
    (ApiError.missing_api_key(), 401, None, None),
    (ApiError.response_not_found("resp_1"), 404, None, "response_id"),
    (ApiError.conversation_not_found("conv_1"), 404, None, "conversation"),
    (ApiError.item_not_found("msg_1"), 404, None, "item_id"),
    (ApiError.unknown_route("GET", "/v1/x"), 404, None, None),
    (ApiError.method_not_allowed("PUT", "/v1/responses", ("POST",)), 405, "method_not_allowed", None),
    (ApiError.conversation_locked(), 409, "conversation_locked", "conversation"),
    (ApiError.conflict("Same key, other body.", code="idempotency_conflict"), 409, "idempotency_conflict", None),
    (ApiError.request_too_large(10), 413, "request_too_large", None),
    (ApiError.rate_limited("Slow down.", retry_after=3), 429, "rate_limit_exceeded", None),
    (ApiError.server_error(), 500, "server_error", None),
    (ApiError.unavailable(), 503, "service_unavailable", None),
]


@pytest.mark.parametrize(("error", "status", "code", "param"), ERRORS, ids=lambda value: str(value)[:30])
def test_each_error_has_its_status_code_and_param(
    error: ApiError, status: int, code: str | None, param: str | None
) -> None:
    assert (error.status, error.code, error.param) == (status, code, param)


@pytest.mark.parametrize("error", [row[0] for row in ERRORS], ids=lambda value: str(value)[:30])
def test_the_body_has_all_four_keys_and_a_type(error: ApiError) -> None:
    detail = error.body()["error"]
    assert set(detail) == {"message", "type", "param", "code"}
    assert detail["type"] in ("invalid_request_error", "server_error", "rate_limit_error")
    assert detail["message"] == str(error) != ""


@pytest.mark.parametrize("error", [row[0] for row in ERRORS if row[1] == 400], ids=lambda value: str(value)[:30])
def test_a_400_is_a_value_error(error: ApiError) -> None:
    assert isinstance(error, InvalidRequest)
    assert isinstance(error, ValueError)


def test_messages_that_clients_know_have_openais_words() -> None:
    assert str(ApiError.previous_response_not_found("resp_1")) == "Previous response with id 'resp_1' not found."
    assert str(ApiError.response_not_found("resp_1")) == "Response with id 'resp_1' not found."
    assert str(ApiError.not_cancellable()) == "Cannot cancel a synchronous response."
    assert str(ApiError.malformed_id("previous_response_id", "x")) == (
        "Invalid 'previous_response_id': 'x'. Expected an ID that begins with 'resp'."
    )


def test_a_wrong_verb_tells_the_right_ones() -> None:
    assert ApiError.method_not_allowed("PUT", "/", ("GET", "POST")).headers == {"allow": "GET, POST"}


def test_a_server_error_stops_sdks_from_running_the_agent_again() -> None:
    assert ApiError.server_error().headers == {"x-should-retry": "false"}
    assert ApiError.server_error(retry=True).headers == {}


def test_a_rate_limit_tells_when_to_come_back() -> None:
    assert ApiError.rate_limited("Slow down.", retry_after=3).headers == {"retry-after": "3"}


def test_what_a_client_sent_is_not_repeated_at_length() -> None:
    assert len(str(ApiError.response_not_found("x" * 1_000_000))) < 300
