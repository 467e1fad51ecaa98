"""The Responses wire protocol: pure functions and one state machine over plain dicts. No I/O.

    request   parse_json_body, parse_create_request, stored_input_items, check_open_calls, check_tool_pairs
    agent     messages_from_items, options_from_request
    response  ResponseRenderer, encode_event
    helpers   responses_to_run, responses_from_run, ... : the second seed's, for apps that own their routes
    about     estimate_input_tokens, compact: what is asked about a request without running it

Neither openai nor agent_framework is imported with it; the latter only when messages or options are made.
"""

from hosting.responses.agent_tools import check_tool_names, executable_tools
from hosting.responses.call_item import SERVER_LABEL
from hosting.responses.calls import ServerCalls
from hosting.responses.compaction import compact, parse_compact_request
from hosting.responses.create_request import CreateRequest, parse_create_request, parse_metadata, stored_input_items
from hosting.responses.envelope import ENVELOPE_KEYS, new_envelope
from hosting.responses.errors import ApiError, ErrorBody, ErrorDetail, InvalidRequest
from hosting.responses.helpers import (
    AgentRunArgs,
    create_conversation_id,
    create_response_id,
    render_result,
    responses_continuation,
    responses_from_run,
    responses_from_streaming_run,
    responses_session_id,
    responses_to_run,
)
from hosting.responses.input_items import item_references, normalize_input, resolve_references, with_ids
from hosting.responses.json_body import parse_json_body
from hosting.responses.known_calls import KnownCall, known_calls, known_calls_of_session
from hosting.responses.messages import messages_from_items, messages_from_responses_input
from hosting.responses.output import Event, Item
from hosting.responses.renderer import ResponseRenderer
from hosting.responses.response_events import ResponseEvents, with_keep_alive
from hosting.responses.run_options import options_from_request
from hosting.responses.sse import DONE, KEEP_ALIVE, encode_event, error_event, event_frame
from hosting.responses.token_count import estimate_input_tokens, parse_input_tokens_request
from hosting.responses.tool_pairs import check_open_calls, check_tool_pairs, open_calls

__all__ = [
    "DONE",
    "ENVELOPE_KEYS",
    "KEEP_ALIVE",
    "SERVER_LABEL",
    "AgentRunArgs",
    "ApiError",
    "CreateRequest",
    "ErrorBody",
    "ErrorDetail",
    "Event",
    "InvalidRequest",
    "Item",
    "KnownCall",
    "ResponseEvents",
    "ResponseRenderer",
    "ServerCalls",
    "check_open_calls",
    "check_tool_names",
    "check_tool_pairs",
    "compact",
    "create_conversation_id",
    "create_response_id",
    "encode_event",
    "error_event",
    "estimate_input_tokens",
    "event_frame",
    "executable_tools",
    "item_references",
    "known_calls",
    "known_calls_of_session",
    "messages_from_items",
    "messages_from_responses_input",
    "new_envelope",
    "normalize_input",
    "open_calls",
    "options_from_request",
    "parse_compact_request",
    "parse_create_request",
    "parse_input_tokens_request",
    "parse_json_body",
    "parse_metadata",
    "render_result",
    "resolve_references",
    "responses_continuation",
    "responses_from_run",
    "responses_from_streaming_run",
    "responses_session_id",
    "responses_to_run",
    "stored_input_items",
    "with_ids",
    "with_keep_alive",
]
