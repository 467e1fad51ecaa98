"""The Response object. It always has all 31 keys that strict clients require, in every event and at rest."""

from collections.abc import Mapping
from typing import Any

from hosting.responses.create_request import CreateRequest
from hosting.responses.well_formed import well_formed

__all__ = ["AGENT_FAILED", "ENVELOPE_KEYS", "failure", "new_envelope"]

type Json = dict[str, Any]

AGENT_FAILED = "The agent failed before it could complete this response."
"""What a client reads when nobody gave a public reason."""

# Codes that OpenAI's types know for the `error` of a response; any other one would not parse there.
_ERROR_CODES = frozenset(
    {
        "server_error",
        "rate_limit_exceeded",
        "invalid_prompt",
        "data_residency_mismatch",
        "bio_policy",
        "misalignment_policy_violation",
        "vector_store_timeout",
        "invalid_image",
        "invalid_image_format",
        "invalid_base64_image",
        "invalid_image_url",
        "image_too_large",
        "image_too_small",
        "image_parse_error",
        "image_content_policy_violation",
        "invalid_image_mode",
        "image_file_too_large",
        "unsupported_image_media_type",
        "empty_image_file",
        "failed_to_download_image",
        "image_file_not_found",
    }
)

# Credentials for an MCP server belong to the request: they are neither echoed nor stored.
_SECRETS = ("authorization", "headers")


def new_envelope(
    request: CreateRequest,
    *,
    response_id: str,
    model: str,
    created_at: int,
    status: str = "in_progress",
    conversation_id: str | None = None,
) -> Json:
    """A Response without output, with the effective values of the request. `created_at` in seconds since 1970.

    `conversation` is there only when the turn belongs to one, `user` and `prompt` only when the request has them.
    """
    envelope: Json = {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "status": status,
        "background": request.background,
        "completed_at": None,
        "error": None,
        "frequency_penalty": _or(request.frequency_penalty, 0.0),
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.max_tool_calls,
        "metadata": request.metadata,
        "model": model,
        "output": [],
        "parallel_tool_calls": _or(request.parallel_tool_calls, True),
        "presence_penalty": _or(request.presence_penalty, 0.0),
        "previous_response_id": request.previous_response_id,
        "prompt_cache_key": request.prompt_cache_key,
        "reasoning": {"effort": None, "summary": None} | (request.reasoning or {}),
        "safety_identifier": request.safety_identifier,
        "service_tier": "default" if request.service_tier in (None, "auto") else request.service_tier,
        "store": request.store,
        "temperature": _or(request.temperature, 1.0),
        "text": _text(request.text or {}),
        "tool_choice": request.tool_choice,
        "tools": [_echoed_tool(tool) for tool in request.tools],
        "top_logprobs": _or(request.top_logprobs, 0),
        "top_p": _or(request.top_p, 1.0),
        "truncation": request.truncation or "disabled",
        "usage": None,
    }
    conversation_id = conversation_id or request.conversation_id
    if conversation_id is not None:
        envelope["conversation"] = {"id": conversation_id}
    if request.user is not None:
        envelope["user"] = request.user
    if request.prompt is not None:
        envelope["prompt"] = request.prompt
    return envelope


def failure(code: str, message: str, *, param: str | None = None) -> Json:
    """The `error` of a failed response. A code that OpenAI's types don't know becomes `server_error`."""
    known = code if code in _ERROR_CODES else "server_error"
    kind = {"server_error": "server_error", "rate_limit_exceeded": "rate_limit_error"}.get(
        known, "invalid_request_error"
    )
    return {"code": known, "message": well_formed(message), "type": kind, "param": param}


def _or[T](value: T | None, default: T) -> T:
    return default if value is None else value


def _text(text: Mapping[str, Any]) -> Json:
    echoed = {name: value for name, value in text.items() if value is not None}
    return {"format": {"type": "text"}} | echoed


def _echoed_tool(tool: Json) -> Json:
    if tool["type"] == "function":
        return {"description": None, "parameters": None, "strict": None} | tool
    return {name: value for name, value in tool.items() if name not in _SECRETS}


ENVELOPE_KEYS = frozenset(new_envelope(CreateRequest(), response_id="", model="", created_at=0))
"""The 31 keys."""
