"""Citations in a text: agent-framework's one `citation` type and the wire's four, in both directions."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

__all__ = ["annotations_from_wire", "annotations_to_wire"]

type Json = dict[str, Any]


def annotations_to_wire(annotations: object) -> list[Json]:
    """Wire annotations; what has neither a file nor a URL is left out, because the wire has no form for it."""
    if not isinstance(annotations, Iterable) or isinstance(annotations, (str, bytes)):
        return []
    found = (_to_wire(entry) for entry in cast("Iterable[object]", annotations))
    return [wire for wire in found if wire is not None]


def annotations_from_wire(annotations: Iterable[Json]) -> list[Json]:
    """The way back, for what a client replays. Unknown types are left out."""
    return [citation for wire in annotations if (citation := _from_wire(wire)) is not None]


def _to_wire(annotation: object) -> Json | None:
    if not isinstance(annotation, Mapping):
        return None
    citation = cast("Mapping[str, Any]", annotation)
    properties = citation.get("additional_properties")
    extra: Mapping[str, Any] = cast("Mapping[str, Any]", properties) if isinstance(properties, Mapping) else {}
    file_id, url = _str(citation.get("file_id")), _str(citation.get("url"))
    start, end = _span(citation.get("annotated_regions"))
    if file_id and (container := _str(extra.get("container_id"))):
        return {
            "type": "container_file_citation",
            "container_id": container,
            "file_id": file_id,
            "filename": url or _str(citation.get("title")) or "",
            "start_index": start,
            "end_index": end,
        }
    if file_id:
        index = extra.get("index")
        wire: Json = {"type": "file_path", "file_id": file_id, "index": index if isinstance(index, int) else 0}
        # Both file types come as a citation with a file_id; only a file_citation has a name.
        filename = url or _str(citation.get("title"))
        return wire | {"type": "file_citation", "filename": filename} if filename else wire
    if url:
        return {
            "type": "url_citation",
            "url": url,
            "title": _str(citation.get("title")) or "",
            "start_index": start,
            "end_index": end,
        }
    return None


def _from_wire(wire: Json) -> Json | None:
    kind, file_id = wire.get("type"), _str(wire.get("file_id"))
    citation: Json = {"type": "citation"}
    if kind == "url_citation" and (url := _str(wire.get("url"))):
        citation |= {"url": url, "title": _str(wire.get("title")) or ""}
    elif kind in ("file_citation", "file_path", "container_file_citation") and file_id:
        citation["file_id"] = file_id
        if filename := _str(wire.get("filename")):
            citation["url"] = filename
        name = "container_id" if kind == "container_file_citation" else "index"
        if wire.get(name) is not None:
            citation["additional_properties"] = {name: wire[name]}
    else:
        return None
    if isinstance(wire.get("start_index"), int) and isinstance(wire.get("end_index"), int):
        citation["annotated_regions"] = [
            {"type": "text_span", "start_index": wire["start_index"], "end_index": wire["end_index"]}
        ]
    return citation


def _span(regions: object) -> tuple[int, int]:
    if isinstance(regions, list) and regions:
        first = cast("list[object]", regions)[0]
        if isinstance(first, Mapping):
            region = cast("Mapping[str, object]", first)
            start, end = region.get("start_index"), region.get("end_index")
            if isinstance(start, int) and isinstance(end, int):
                return start, end
    return 0, 0


def _str(value: object) -> str | None:
    return value if isinstance(value, str) else None
