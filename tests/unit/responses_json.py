"""Hypothesis strategies for request bodies: JSON that looks just enough like a request to get deep into the parsers."""

from hypothesis import strategies as st

_FIELDS = """
model instructions previous_response_id conversation stream stream_options background store include metadata tools
tool_choice parallel_tool_calls max_tool_calls max_output_tokens temperature top_p top_logprobs truncation service_tier
reasoning text prompt prompt_cache_key safety_identifier user presence_penalty frequency_penalty
"""
_WORDS = """
message user assistant system function function_call function_call_output reasoning item_reference input_text
output_text input_image input_file input_audio refusal json_schema auto required allowed_tools mcp_call agent
computer_call computer_call_output mcp_approval_request mcp_approval_response web_search_call shell_call
file_search_call code_interpreter_call image_generation_call local_shell_call custom_tool_call compaction
shell_call_output local_shell_call_output apply_patch_call tool_search_output completed incomplete resp_1 conv_1 msg_1
call_1 image computer_screenshot url_citation wav data:image/png;base64,AAAA https://example.com/a.png http://[::1 data:,x
"""
_NAMES = """
type role content text id call_id name arguments output summary encrypted_content image_url file_url file_data file_id
filename detail status input_audio data format approve approval_request_id server_label input action actions queries
results outputs code result commands error phase annotations tools mode schema strict url sources logs operation refusal
"""

FIELDS = tuple(_FIELDS.split())
"""All fields of a request but `input`."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4),
    max_leaves=8,
)

VALUES = st.recursive(
    st.sampled_from(_WORDS.split()) | JSON,
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.sampled_from(_NAMES.split()), children, max_size=6)
    ),
    max_leaves=8,
)

_ITEM_TYPES = tuple(
    word
    for word in _WORDS.split()
    if "_call" in word
    or word in ("message", "reasoning", "mcp_approval_request", "mcp_approval_response", "tool_search_output")
)
_TEXTS = {
    name: st.just("x")
    for name in ("call_id", "name", "arguments", "server_label", "output", "input", "id", "approval_request_id")
}

_COMPLETE = {name: "x" for name in _TEXTS if name != "id"} | {"approve": True, "summary": [], "role": "user"}

_PARTS = st.builds(
    lambda kind, fields: fields | {"type": kind},
    st.sampled_from(["input_text", "output_text", "text", "refusal", "input_image", "input_file", "input_audio"]),
    st.fixed_dictionaries(
        {"text": st.text(max_size=3), "refusal": st.text(max_size=3)},
        optional={
            "image_url": st.sampled_from(["data:image/png;base64,AAAA", "https://example.com/a.png", "x"]) | VALUES,
            "file_url": st.sampled_from(["data:text/plain;base64,AAAA", "https://example.com/a.pdf", "x"]) | VALUES,
            "file_data": st.sampled_from(["data:text/plain;base64,AAAA", "AAAA"]) | VALUES,
            "file_id": st.just("file_1") | VALUES,
            "filename": st.just("a.pdf") | VALUES,
            "detail": st.just("low") | VALUES,
            "annotations": st.lists(VALUES, max_size=2) | VALUES,
            "input_audio": st.just({"data": "AAAA", "format": "mp3"}) | VALUES,
        },
    ),
)

_MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system", "developer"]),
        "content": st.text(max_size=3) | st.lists(_PARTS, max_size=3),
    },
    optional={"id": st.text(max_size=3), "phase": st.just("commentary"), "status": st.just("completed")},
)

_NEAR_ITEMS = st.builds(
    lambda kind, more, base: more | base | {"type": kind},
    st.sampled_from(_ITEM_TYPES),
    st.dictionaries(st.sampled_from(_NAMES.split()), VALUES, max_size=3),
    st.fixed_dictionaries({}, optional=_TEXTS) | st.just(_COMPLETE),
)

ITEMS = _NEAR_ITEMS | _MESSAGES
"""Items that are right, or nearly so."""

BODIES = st.builds(
    lambda body, items: body | ({"input": items} if items else {}),
    st.dictionaries(st.sampled_from(["input", *FIELDS]), VALUES, max_size=5),
    st.lists(ITEMS, max_size=3),
)
"""Bodies of the same quality."""
