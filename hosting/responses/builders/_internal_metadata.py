"""Notes of a handler to itself: they travel with the stored response and never reach a client.

They live under one reserved key of `metadata`, as a JSON object of at most 512 characters (the limit of a metadata value).
"""

import json
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["INTERNAL_METADATA", "public_response", "read_internal_metadata", "with_internal_metadata"]

type Json = dict[str, Any]

INTERNAL_METADATA = "_internal_metadata"
"""The reserved key. A server must also take it out of what a client sends."""

_MAX_CHARACTERS = 512


def read_internal_metadata(response: Mapping[str, Any]) -> Json:
    """The notes in a stored response; empty when there are none, or none that can be read."""
    metadata = response.get("metadata")
    text = cast("Mapping[str, Any]", metadata).get(INTERNAL_METADATA) if isinstance(metadata, Mapping) else None
    try:
        notes: Any = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return cast("Json", notes) if isinstance(notes, dict) else {}


def with_internal_metadata(metadata: Mapping[str, Any], notes: Mapping[str, Any]) -> Json:
    """`metadata` with the notes in it. Raises ValueError when they are too long or no JSON."""
    kept = {key: value for key, value in metadata.items() if key != INTERNAL_METADATA}
    if not notes:
        return kept
    try:
        text = json.dumps(dict(notes), separators=(",", ":"), allow_nan=False)
    except TypeError as error:
        raise ValueError(f"internal_metadata must be JSON: {error}") from None
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"internal_metadata has {len(text)} characters of JSON, at most {_MAX_CHARACTERS} are kept")
    return kept | {INTERNAL_METADATA: text}


def public_response(response: Mapping[str, Any]) -> Json:
    """A stored response as a client may see it. The given one stays as it is."""
    shown = dict(response)
    metadata = shown.get("metadata")
    if isinstance(metadata, Mapping) and INTERNAL_METADATA in metadata:
        shown["metadata"] = with_internal_metadata(cast("Mapping[str, Any]", metadata), {})
    return shown
