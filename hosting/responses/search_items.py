"""What a search asks and what it finds, from an agent's arguments and results to the fields of the API's search items."""

from collections.abc import Mapping
from typing import Any, cast

from hosting.responses.tool_results import arguments_text

__all__ = ["file_result", "found_entries", "search_action", "search_queries"]

type Json = dict[str, Any]


def search_queries(arguments: Mapping[str, Any]) -> list[str]:
    """All that was searched for."""
    queries: Any = arguments.get("queries", arguments.get("query"))
    listed = cast("list[Any]", queries) if isinstance(queries, list) else [queries]
    return [query for query in listed if isinstance(query, str)]


def search_action(arguments: Mapping[str, Any]) -> Json:
    """The `action` of a `web_search_call`."""
    match arguments.get("type"):
        case "open_page":
            return {"type": "open_page", "url": arguments.get("url")}
        case "find_in_page":
            return {
                "type": "find_in_page",
                "url": str(arguments.get("url") or ""),
                "pattern": str(arguments.get("pattern") or ""),
            }
        case _:
            queries = search_queries(arguments)
            query = queries[0] if queries else str(arguments.get("raw") or "")
            return {"type": "search", "query": query} | ({"queries": queries} if queries else {})


def found_entries(result: Any) -> list[Mapping[str, Any]]:
    """What a search has found: a list, a single object, or a list in an object's `results`. Empty entries say nothing."""
    if isinstance(result, Mapping):
        result = cast("Mapping[str, Any]", result).get("results", [result])
    entries = cast("list[Any]", result) if isinstance(result, list) else []
    return [cast("Mapping[str, Any]", entry) for entry in entries if isinstance(entry, Mapping) and entry]


def file_result(entry: Mapping[str, Any]) -> Json:
    """One of the `results` of a `file_search_call`. What has none of the API's fields becomes a text."""
    result: Json = {
        name: value for name in ("file_id", "filename", "text") if isinstance(value := entry.get(name), str)
    }
    score = entry.get("score")
    if isinstance(score, (int, float)) and not isinstance(score, bool):
        result["score"] = score
    if not result:
        result["text"] = arguments_text(dict(entry))
    return result
