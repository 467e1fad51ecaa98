"""The body of POST /responses, checked and with every default filled in.

Fields that we don't know are ignored (Codex sends `client_metadata`), null is absent, and empty values are values.
Whatever the body holds, only an InvalidRequest comes out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, cast

from hosting.responses.errors import ApiError, InvalidRequest
from hosting.responses.fields import Fields
from hosting.responses.includes import parse_include
from hosting.responses.input_items import has_substance, normalize_input, with_ids
from hosting.responses.json_body import check_depth
from hosting.responses.tool_fields import parse_text, parse_tool_choice, parse_tools

__all__ = ["CreateRequest", "parse_create_request", "parse_metadata", "stored_input_items"]

type Json = dict[str, Any]

_TRUNCATIONS = ("auto", "disabled")
_FEWEST_OUTPUT_TOKENS = 16
_SERVICE_TIERS = ("auto", "default", "flex", "scale", "priority", "fast", "ultrafast")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """A valid request. Lists and dicts in it are shared with the parsed body: read them, don't change them."""

    input_items: tuple[Json, ...] = ()
    """Wire items in their normal form (see input_items), ids only where the client gave one."""
    model: str | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation_id: str | None = None
    stream: bool = False
    stream_options: Json | None = None
    background: bool = False
    store: bool = True
    include: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    tools: tuple[Json, ...] = ()
    tool_choice: str | Json = "auto"
    parallel_tool_calls: bool | None = None
    max_tool_calls: int | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    truncation: str | None = None
    service_tier: str | None = None
    reasoning: Json | None = None
    text: Json | None = None
    prompt: Json | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    user: str | None = None

    @property
    def client_tools(self) -> frozenset[str]:
        """Names of the function tools that the client declared: a call of one is the client's to answer."""
        return frozenset(tool["name"] for tool in self.tools if tool["type"] == "function")

    def to_body(self) -> Json:
        """A body that parses to this request again; for a run that goes on in another process."""
        body: Json = {name: value for name in _FIELDS if (value := getattr(self, name)) is not None}
        body["input"] = list(body.pop("input_items"))
        body["conversation"] = body.pop("conversation_id", None)
        return body | {"tools": list(self.tools), "include": list(self.include)}


_FIELDS = tuple(f.name for f in fields(CreateRequest))


def parse_create_request(
    body: object, *, allow_private_urls: bool = False, input_required: bool = True
) -> CreateRequest:
    """The request in `body`, a parsed JSON value.

    `model` may be absent: the server decides what the default is. `allow_private_urls` lets images and files name hosts
    inside the app's own network (see media). Without `input_required` there may be no input, or nothing in it: not
    everything that is asked about a request runs it.

    Raises InvalidRequest with `param` and `code` for everything that the API would refuse.
    """
    check_depth(body)
    read = Fields(body)
    stream = read.boolean("stream") or False
    background = read.boolean("background") or False
    store = read.boolean("store")
    previous, conversation = _continuation(read)
    return CreateRequest(
        input_items=_input(
            read, bool(previous or conversation) or not input_required, allow_private_urls, input_required
        ),
        model=read.string("model", max_length=256) or None,
        instructions=read.string("instructions"),
        previous_response_id=previous,
        conversation_id=conversation,
        stream=stream,
        stream_options=_stream_options(read, stream),
        background=_background(background, store),
        store=True if store is None else store,
        include=parse_include(read),
        metadata=parse_metadata(read),
        tools=parse_tools(read),
        tool_choice=parse_tool_choice(read),
        parallel_tool_calls=read.boolean("parallel_tool_calls"),
        max_tool_calls=read.integer("max_tool_calls", minimum=0),
        max_output_tokens=read.integer("max_output_tokens", minimum=_FEWEST_OUTPUT_TOKENS),
        temperature=read.decimal("temperature", minimum=0, maximum=2),
        top_p=read.decimal("top_p", minimum=0, maximum=1),
        top_logprobs=read.integer("top_logprobs", minimum=0, maximum=20),
        presence_penalty=read.decimal("presence_penalty", minimum=-2, maximum=2),
        frequency_penalty=read.decimal("frequency_penalty", minimum=-2, maximum=2),
        truncation=read.one_of("truncation", _TRUNCATIONS),
        service_tier=read.one_of("service_tier", _SERVICE_TIERS),
        reasoning=_reasoning(read),
        text=parse_text(read),
        prompt=_prompt(read),
        prompt_cache_key=_prompt_cache_key(read),
        safety_identifier=read.string("safety_identifier", max_length=128),
        user=read.string("user"),
    )


def stored_input_items(request: CreateRequest, response_id: str) -> list[Json]:
    """The input of a request as `input_items` lists it and as it is stored: every item has an id."""
    return with_ids(request.input_items, response_id)


def parse_metadata(read: Fields) -> dict[str, str]:
    """At most 16 pairs of strings: keys of up to 64 characters, values of up to 512."""
    metadata: Mapping[str, object] = read.object("metadata") or {}
    if len(metadata) > 16:
        raise InvalidRequest(
            "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, "
            f"but got an object with {len(metadata)} properties instead.",
            param="metadata",
            code="object_above_max_properties",
        )
    values = Fields(metadata, "metadata")
    pairs: dict[str, str] = {}
    for key, value in metadata.items():
        if len(key) > 64:
            raise InvalidRequest(
                "Invalid 'metadata': key too long. Expected keys with maximum length 64.",
                param="metadata",
                code="string_above_max_length",
            )
        if value is None:
            raise InvalidRequest.wrong_type(values.path(key), "a string", value)
        pairs[key] = values.string(key, max_length=512) or ""
    return pairs


def _continuation(read: Fields) -> tuple[str | None, str | None]:
    previous = read.string("previous_response_id")
    if previous is not None and not previous.startswith("resp_"):
        raise ApiError.malformed_id("previous_response_id", previous)
    param, conversation = "conversation", read.value("conversation")
    if isinstance(conversation, dict):
        param, conversation = (
            "conversation.id",
            Fields(cast("Json", conversation), "conversation").required_string("id"),
        )
    elif conversation is not None and not isinstance(conversation, str):
        raise InvalidRequest.wrong_type("conversation", "a string or an object", conversation)
    if conversation is not None and not conversation.startswith("conv_"):
        raise ApiError.malformed_id(param, conversation, "conv")
    if previous is not None and conversation is not None:
        raise InvalidRequest.mutually_exclusive("previous_response_id", "conversation")
    return previous, conversation


def _input(read: Fields, may_be_empty: bool, allow_private_urls: bool, required: bool) -> tuple[Json, ...]:
    value = read.value("input")
    if value is None:
        if read.has("prompt") or not required:
            return ()
        raise InvalidRequest.missing("input")
    items = normalize_input(value, allow_private_urls=allow_private_urls)
    if not may_be_empty and not read.has("prompt") and not has_substance(items):
        # An empty input may still continue something; with nothing before it there is nothing to answer.
        raise InvalidRequest("Invalid 'input': expected a non-empty input.", param="input", code="invalid_value")
    return tuple(items)


def _stream_options(read: Fields, stream: bool) -> Json | None:
    options = read.nested("stream_options")
    if options is None:
        return None
    options.boolean("include_obfuscation")
    if not stream:
        raise InvalidRequest(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
            code="invalid_value",
        )
    return read.object("stream_options")


def _background(background: bool, store: bool | None) -> bool:
    if background and store is False:
        raise ApiError.unsupported("background", "Background mode requires 'store' to be true.")
    return background


def _prompt_cache_key(read: Fields) -> str | None:
    options = read.nested("prompt_cache_options")
    if options is not None and options.boolean("prewarm"):
        # The other options are hints, which may be ignored. This one asks for no run, and a run has consequences.
        raise ApiError.unsupported(options.path("prewarm"), "Prewarming of the prompt cache is not supported.")
    return read.string("prompt_cache_key", max_length=64)


def _reasoning(read: Fields) -> Json | None:
    reasoning = read.nested("reasoning")
    if reasoning is None:
        return None
    values = {name: reasoning.string(name) for name in ("effort", "summary", "generate_summary")}
    return {name: value for name, value in values.items() if value is not None}


def _prompt(read: Fields) -> Json | None:
    prompt = read.nested("prompt")
    if prompt is not None:
        prompt.required_string("id")
        prompt.string("version")
        prompt.object("variables")
    return read.object("prompt")
