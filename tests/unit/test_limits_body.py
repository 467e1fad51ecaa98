"""Bodies that are too slow, too long, or too much once they are parsed."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting.responses import ApiError, InvalidRequest
from hosting.server import Request
from hosting.server.limit_body import MAX_JSON_VALUES, check_json_size, read_with_deadline


def request(body: bytes, seconds: float = 0.0, **headers: str) -> Request:
    async def read(limit: int) -> bytes:
        await asyncio.sleep(seconds)
        if len(body) > limit:
            raise ApiError.request_too_large(limit)
        return body

    return Request("POST", "/v1/responses", headers=headers, read=read)


async def test_a_body_that_arrives_in_time_is_read() -> None:
    assert await read_with_deadline(request(b"{}"), 100, 10) == b"{}"


async def test_a_request_without_a_body_has_an_empty_one() -> None:
    assert await read_with_deadline(Request("POST", "/"), 100, 10) == b""


async def test_a_body_that_does_not_arrive_is_a_408_and_the_connection_ends() -> None:
    with pytest.raises(ApiError) as caught:
        await read_with_deadline(request(b"{}", seconds=3600), 100, 0.01)
    error = caught.value
    assert (error.status, error.code, error.type) == (408, "request_timeout", "invalid_request_error")
    assert error.headers == {"connection": "close"}
    assert error.body()["error"]["message"] == "The request body did not arrive within 0.01 seconds."


async def test_a_length_over_the_limit_is_refused_before_anything_is_read() -> None:
    sent = request(b"", seconds=3600, **{"content-length": "101"})
    with pytest.raises(ApiError) as caught:
        await read_with_deadline(sent, 100, 3600)
    assert caught.value.status == 413


@pytest.mark.parametrize("length", ["", "-1", "1e9", "٩٩٩٩", "abc"])
async def test_a_length_that_is_no_number_is_not_believed(length: str) -> None:
    assert await read_with_deadline(request(b"{}", **{"content-length": length}), 100, 10) == b"{}"


async def test_a_length_of_a_thousand_digits_is_too_large() -> None:
    with pytest.raises(ApiError) as caught:
        await read_with_deadline(request(b"{}", **{"content-length": "9" * 10_000}), 100, 10)
    assert caught.value.status == 413


async def test_a_body_that_is_longer_than_it_said_is_a_413() -> None:
    with pytest.raises(ApiError) as caught:
        await read_with_deadline(request(b"x" * 101, **{"content-length": "5"}), 100, 10)
    assert caught.value.status == 413


# ---- values


@pytest.mark.parametrize(
    "value",
    [
        [{}] * MAX_JSON_VALUES,
        [[]] * MAX_JSON_VALUES,
        [0] * (MAX_JSON_VALUES + 1),
        {str(number): number for number in range(MAX_JSON_VALUES + 1)},
        ['a\\"', "b\\"] * MAX_JSON_VALUES,
    ],
    ids=["objects", "arrays", "numbers", "members", "strings"],
)
def test_too_many_values_are_refused(value: object) -> None:
    with pytest.raises(InvalidRequest, match="JSON values"):
        check_json_size(json.dumps(value).encode())


@pytest.mark.parametrize(
    "text",
    [
        "1, 2, [3], {4} " * MAX_JSON_VALUES,
        'a "quoted", \\ word ' * MAX_JSON_VALUES,
        "\\" * MAX_JSON_VALUES + '",' * MAX_JSON_VALUES,
        "ü,{" * MAX_JSON_VALUES,
    ],
    ids=["commas", "quotes", "backslashes", "utf-8"],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_is_in_strings_is_text_and_makes_no_values(text: str, ascii_only: bool) -> None:
    body = json.dumps({"input": [text, text]}, ensure_ascii=ascii_only)
    check_json_size(body.encode())


def test_a_large_but_ordinary_request_passes() -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello, [you] {there}"}] * 3}
    tool = {
        "type": "function",
        "name": "f",
        "parameters": {"properties": {str(n): {"type": "string"} for n in range(50)}},
    }
    check_json_size(json.dumps({"input": [item] * 2000, "tools": [tool] * 128}).encode())


def test_looking_at_strings_has_an_end_also_when_nothing_is_between_them() -> None:
    with pytest.raises(InvalidRequest, match="JSON values"):
        check_json_size(b'"[,"' * (2 * MAX_JSON_VALUES + 2))


def test_broken_json_is_left_to_the_parser() -> None:
    check_json_size(b'{"input": "' + b"\\" * 7 + b'"' * 9 + b"\xff" * 1000)


def marks(value: Any) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return 0
    return 1 + max(0, len(value) - 1) + sum(map(marks, value))


JSON = st.recursive(
    st.integers() | st.text('a",[{\\') | st.none(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text('b",[{\\', max_size=5), inner, max_size=6),
    max_leaves=40,
)


@given(value=JSON, limit=st.integers(0, 30), ascii_only=st.booleans())
def test_a_body_passes_exactly_when_its_values_are_within_the_limit(value: Any, limit: int, ascii_only: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hosting.server.limit_body.MAX_JSON_VALUES", limit)
        body = json.dumps(value, ensure_ascii=ascii_only).encode()
        try:
            check_json_size(body)
            passed = True
        except InvalidRequest:
            passed = False
    assert passed == (marks(value) <= limit)
