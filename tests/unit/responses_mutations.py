"""Request bodies that are right but for one thing: a field more, less, twice, or of another type."""

import copy
from typing import Any

from hypothesis import strategies as st

from tests.unit.responses_json import JSON, VALUES

PNG = "data:image/png;base64,iVBORw0KGgo="

VALID: tuple[dict[str, Any], ...] = (
    {"input": "hi", "model": "m", "stream": True, "stream_options": {"include_obfuscation": False}},
    {
        "previous_response_id": "resp_1",
        "input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]}],
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    },
    {
        "conversation": {"id": "conv_1"},
        "background": True,
        "store": True,
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "see"},
                    {"type": "input_image", "image_url": PNG, "detail": "low"},
                    {"type": "input_image", "file_id": "file_1"},
                    {"type": "input_file", "filename": "a.pdf", "file_data": "JVBERi0="},
                    {"type": "input_file", "file_url": "https://e.com/a.pdf"},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                ],
            },
            {"role": "developer", "content": "Be brief."},
        ],
        "metadata": {"a": "b"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}, "verbosity": "low"},
        "include": ["reasoning.encrypted_content"],
    },
    {
        "instructions": "x",
        "temperature": 0.5,
        "top_p": 1,
        "top_logprobs": 3,
        "max_output_tokens": 90,
        "max_tool_calls": 1,
        "truncation": "auto",
        "service_tier": "flex",
        "prompt": {"id": "p", "version": "1", "variables": {}},
        "user": "u",
        "input": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "phase": "commentary",
                "content": [
                    {
                        "type": "output_text",
                        "text": "x",
                        "annotations": [{"type": "file_citation", "file_id": "f", "filename": "a", "index": 1}],
                        "logprobs": [{"token": "x", "bytes": [120], "logprob": -1, "top_logprobs": []}],
                    },
                    {"type": "refusal", "refusal": "no"},
                ],
            },
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "s"}], "content": []},
            {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "mcp_call", "id": "m", "server_label": "agent", "name": "f", "arguments": "{}", "output": "x"},
            {"type": "mcp_approval_request", "id": "a", "server_label": "agent", "name": "f", "arguments": "{}"},
            {"type": "mcp_approval_response", "approval_request_id": "a", "approve": False, "reason": "no"},
            {"type": "computer_call", "call_id": "k", "action": {"type": "click"}, "pending_safety_checks": []},
            {
                "type": "computer_call_output",
                "call_id": "k",
                "output": {"type": "computer_screenshot", "image_url": PNG},
            },
            {"type": "web_search_call", "id": "ws", "action": {"type": "search", "query": "q", "sources": []}},
            {"type": "file_search_call", "id": "fs", "queries": ["q"], "results": [{"text": "t"}]},
            {"type": "code_interpreter_call", "id": "ci", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
            {"type": "image_generation_call", "id": "ig", "result": "AAAA"},
            {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"], "timeout_ms": 1}},
            {"type": "shell_call_output", "call_id": "s", "output": [{"stdout": "", "outcome": {"type": "timeout"}}]},
            {"type": "custom_tool_call", "call_id": "u", "name": "n", "input": "i"},
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "e30="},
            {"id": "msg_2"},
        ],
    },
)
"""Bodies that the API takes, which together use every field and most items."""


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    here = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    return [(value, key) for key, _ in here] + [place for _, child in here for place in _places(child)]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """One of VALID with up to three things wrong."""
    body = copy.deepcopy(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 3))):
        places = _places(body)
        if not places:
            break
        container, key = places[draw(st.integers(0, len(places) - 1))]
        match draw(st.sampled_from(["replace", "remove", "wrap", "again", "add"])):
            case "replace":
                container[key] = draw(VALUES)
            case "remove":
                del container[key]
            case "wrap":
                container[key] = draw(st.sampled_from([[container[key]], {"type": container[key]}]))
            case "again" if isinstance(container, list):
                container.append(container[key])
            case _:
                if isinstance(container, dict):
                    container[draw(st.text(max_size=4))] = draw(JSON)
    return body
