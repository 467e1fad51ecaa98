"""Values of a query, checked. Of a name that comes more than once the last value counts; unknown names are ignored."""

from collections.abc import Mapping, Sequence

from hosting.responses import ApiError
from hosting.responses.errors import shortened
from hosting.responses.includes import check_includes

__all__ = ["check_query_include", "query_flag"]

type Query = Mapping[str, Sequence[str]]


def query_flag(query: Query, name: str) -> bool:
    """A boolean that is false when it is absent. SDKs send `true`, a Python program without one may send `True`.

    Raises ApiError 400 for anything else.
    """
    value = query.get(name, ["false"])[-1]
    match value.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ApiError.invalid_value(
                name, f"Invalid '{name}': expected 'true' or 'false', but got '{shortened(value, 40)}' instead."
            )


def check_query_include(query: Query) -> None:
    """`include`, which SDKs send as `include[]=a&include[]=b`. Raises ApiError 400 for an unknown name."""
    check_includes([*query.get("include[]", ()), *query.get("include", ())])
