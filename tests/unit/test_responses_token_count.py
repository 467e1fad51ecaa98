"""POST /v1/responses/input_tokens without HTTP: an estimate that grows with what a model has to read."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosting.responses import InvalidRequest, estimate_input_tokens, normalize_input, parse_input_tokens_request
from hosting.responses.token_count import estimate_items

type Json = dict[str, Any]

PNG = "data:image/png;base64," + "A" * 40_000


def count(**body: Any) -> int:
    return estimate_input_tokens(body)


def part(value: Json) -> int:
    return count(input=[{"role": "user", "content": [value]}])


def test_nothing_is_nothing() -> None:
    assert estimate_input_tokens({}) == 0
    assert estimate_input_tokens(parse_input_tokens_request({"model": "m", "input": None})) == 0


def test_a_text_counts_a_token_for_four_bytes_and_its_message() -> None:
    assert count(input="x" * 400) == 100 + 4
    assert count(input="x") == 1 + 4


def test_bytes_count_and_not_characters() -> None:
    assert count(input="天" * 400) == 300 + 4


def test_the_turns_before_count_too() -> None:
    history = normalize_input([{"role": "user", "content": "x" * 40}, {"role": "assistant", "content": "y" * 40}])
    assert estimate_input_tokens({"input": "z" * 40}, history) == 3 * (10 + 4)


def test_instructions_tools_and_the_schema_of_the_answer_count() -> None:
    tool = {"type": "function", "name": "f", "description": "d" * 400, "parameters": {"type": "object"}}
    schema = {"type": "json_schema", "name": "n", "schema": {"properties": {"p" * 400: {}}}}
    assert count(instructions="x" * 400) == 100 + 4
    assert 100 < count(tools=[tool]) < 150
    assert 100 < count(text={"format": schema}) < 150
    assert count(text={"format": {"type": "text"}}) == 0


def test_credentials_of_a_server_are_no_input() -> None:
    server = {"type": "mcp", "server_label": "docs", "server_url": "https://e.com"}
    assert count(tools=[server | {"authorization": "s" * 4000, "headers": {"x": "s" * 4000}}]) == count(tools=[server])


@pytest.mark.parametrize(("detail", "tokens"), [("low", 85), ("high", 765), ("auto", 765)])
def test_an_image_costs_the_same_whatever_its_bytes(detail: str, tokens: int) -> None:
    assert part({"type": "input_image", "image_url": PNG, "detail": detail}) == tokens + 4


def test_a_text_file_is_all_text_and_others_are_a_quarter() -> None:
    data = "A" * 16_000  # 12,000 bytes
    text = part({"type": "input_file", "filename": "a.txt", "file_data": data})
    pdf = part({"type": "input_file", "filename": "a.pdf", "file_data": data})
    assert 3000 <= text < 3010
    assert 750 <= pdf < 760


def test_a_file_by_reference_is_a_guess() -> None:
    assert 1000 <= part({"type": "input_file", "file_id": "file_1"}) < 1010


def test_audio_counts_its_seconds() -> None:
    second = "A" * (32_000 * 4 // 3 + 4)
    assert (
        10
        <= part({"type": "input_audio", "input_audio": {"data": second[: len(second) // 4 * 4], "format": "wav"}})
        < 20
    )


def test_calls_and_what_they_gave_count_and_their_ids_do_not() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "x" * 400}
    output = {"type": "function_call_output", "call_id": "c", "output": "y" * 400}
    short = count(input=[call, output])
    long = count(input=[call | {"call_id": "c" * 500, "id": "i" * 500}, output | {"call_id": "c" * 500}])
    assert short == long
    assert 200 < short < 220


def test_encrypted_reasoning_is_not_counted_and_a_compaction_is() -> None:
    reasoning = {"type": "reasoning", "summary": [], "encrypted_content": "A" * 4000}
    assert count(input=[reasoning, {"role": "user", "content": "x"}]) == 4 + count(input="x")
    compaction = {"type": "compaction", "encrypted_content": "A" * 4000}
    assert count(input=[compaction]) == 750 + 4


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": 5}, "input"),
        ({"tools": {}}, "tools"),
        ({"previous_response_id": "x"}, "previous_response_id"),
        ({"previous_response_id": "resp_1", "conversation": "conv_1"}, "previous_response_id"),
        ([], None),
    ],
)
def test_a_malformed_request_is_a_400(body: Any, param: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_input_tokens_request(body)
    assert caught.value.param == param


def test_how_a_request_would_be_run_is_not_looked_at() -> None:
    odd = {"stream": "odd", "store": 5, "background": "x", "personality": "p", "metadata": []}
    assert estimate_input_tokens(parse_input_tokens_request({"input": "x" * 40, **odd})) == 14


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=5), st.text(max_size=30))
def test_more_is_never_less(texts: list[str], more: str) -> None:
    items = normalize_input([{"role": "user", "content": text} for text in texts])
    assert estimate_items(items) < estimate_items([*items, *normalize_input(more)])
