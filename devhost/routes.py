"""Which function answers a request: route templates and their order, as in the Functions host.

The host sorts routes by how specific they are and takes the first whose template, constraints and methods all match.
So a request with a verb that one function does not take falls through to the next that matches its path, and with
none left it is 404, not 405. Matching ignores case, as in ASP.NET Core, and a trailing slash.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from devhost.errors import DevHostError
from devhost.functions import Function

__all__ = ["Match", "Router"]

_ALL_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD", "PATCH", "PUT", "OPTIONS", "TRACE", "CONNECT"})
_GUID = re.compile(r"[{(]?[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}[)}]?", re.IGNORECASE)
_DATE = re.compile(
    r"\d{4}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?|\d{1,2}/\d{1,2}/\d{4}"
)


def _number(kind: type[int] | type[float], low: float, high: float) -> Callable[[str, str], bool]:
    def check(value: str, _: str) -> bool:
        try:
            return low <= kind(value) <= high
        except ValueError:
            return False

    return check


def _bounds(arguments: str) -> tuple[int, int]:
    low, _, high = arguments.partition(",")
    return int(low), int(high or low)


def _between(low: int, value: float, high: int) -> bool:
    return low <= value <= high


_INT = _number(int, -(2**31), 2**31 - 1)
_LONG = _number(int, -(2**63), 2**63 - 1)
_REAL = _number(float, float("-inf"), float("inf"))

# Route constraints of ASP.NET Core: name -> (value, arguments) -> whether the value is acceptable.
_CONSTRAINTS: dict[str, Callable[[str, str], bool]] = {
    "int": _INT,
    "long": _LONG,
    "float": _REAL,
    "double": _REAL,
    "decimal": _REAL,
    "bool": lambda value, _: value.lower() in {"true", "false"},
    "guid": lambda value, _: bool(_GUID.fullmatch(value)),
    "datetime": lambda value, _: bool(_DATE.fullmatch(value)),
    "alpha": lambda value, _: bool(re.fullmatch(r"[a-zA-Z]*", value)),
    "length": lambda value, args: _between(_bounds(args)[0], len(value), _bounds(args)[1]),
    "minlength": lambda value, args: len(value) >= int(args),
    "maxlength": lambda value, args: len(value) <= int(args),
    "min": lambda value, args: _LONG(value, "") and int(value) >= int(args),
    "max": lambda value, args: _LONG(value, "") and int(value) <= int(args),
    "range": lambda value, args: _LONG(value, "") and _between(_bounds(args)[0], int(value), _bounds(args)[1]),
    "regex": lambda value, args: bool(re.search(args, value, re.IGNORECASE)),
    "required": lambda value, _: value != "",
}


@dataclass(frozen=True, slots=True)
class _Parameter:
    name: str
    catch_all: bool
    optional: bool
    default: str | None
    constraints: tuple[tuple[str, str], ...]

    def accepts(self, value: str) -> bool:
        return all(_CONSTRAINTS[name](value, arguments) for name, arguments in self.constraints)


@dataclass(frozen=True, slots=True)
class _Segment:
    """One segment of a template: a regular expression over it and its parameters, if any."""

    pattern: re.Pattern[str]
    parameters: tuple[_Parameter, ...]
    rank: int

    @property
    def catch_all(self) -> bool:
        return bool(self.parameters) and self.parameters[-1].catch_all


@dataclass(frozen=True, slots=True)
class Match:
    """The function for a request, and the values of its route parameters."""

    function: Function
    params: dict[str, str]


class _Route:
    def __init__(self, function: Function, template: str) -> None:
        self.function = function
        methods = function.trigger.get("methods") or _ALL_METHODS
        self.methods = frozenset(str(method).upper() for method in methods)
        self.template = template
        self.segments = [_parse_segment(part, template) for part in template.strip("/").split("/") if part]

    @property
    def order(self) -> tuple[int, ...]:
        # Segment by segment: text before a constrained parameter before a free one before a catch-all, and a longer
        # template before one that ends here.
        return (*(segment.rank for segment in self.segments), 9)

    def match(self, parts: list[str]) -> dict[str, str] | None:
        """The parameters, or None when the path does not match. `parts` are the decoded segments of the path."""
        values: dict[str, str] = {}
        for index, segment in enumerate(self.segments):
            if segment.catch_all:
                found = {segment.parameters[-1].name: "/".join(parts[index:])}
                return _accepted(segment, found, values)
            if index >= len(parts):
                # The path is over: what is left of the template must be optional or have a default.
                if not all(p.optional or p.default is not None for p in segment.parameters) or not segment.parameters:
                    return None
                for p in segment.parameters:
                    if p.default is not None:
                        values[p.name] = p.default
                continue
            matched = segment.pattern.fullmatch(parts[index])
            if matched is None:
                return None
            found = {p.name: matched[f"p{i}"] for i, p in enumerate(segment.parameters)}
            if _accepted(segment, found, values) is None:
                return None
        return values if len(parts) <= len(self.segments) else None


def _accepted(segment: _Segment, found: dict[str, str], values: dict[str, str]) -> dict[str, str] | None:
    for parameter in segment.parameters:
        if not parameter.accepts(found[parameter.name]):
            return None
        if found[parameter.name] or not parameter.catch_all:
            values[parameter.name] = found[parameter.name]
    return values


def _parse_segment(text: str, template: str) -> _Segment:
    pattern, parameters = "", []
    for literal, content in re.findall(r"([^{}]*)(?:\{((?:[^{}]|\{\{|\}\})*)\})?", text):
        pattern += re.escape(literal)
        if content:
            pattern += f"(?P<p{len(parameters)}>.+?)"
            parameters.append(_parse_parameter(content, template))
    if not parameters:
        rank = 0
    elif parameters[-1].catch_all:
        rank = 3
    else:
        rank = 1 if parameters[0].constraints else 2
    return _Segment(re.compile(pattern, re.IGNORECASE), tuple(parameters), rank)


def _parse_parameter(content: str, template: str) -> _Parameter:
    """`{*name}`, `{name?}`, `{name=default}` and `{name:constraint(arguments):...}`, without the braces."""
    content = content.replace("{{", "{").replace("}}", "}")
    stripped = content.lstrip("*")
    head = re.match(r"[^:=?]+", stripped)
    if head is None:
        raise DevHostError(f"the route {template!r} has a parameter without a name")
    rest = stripped[head.end() :]
    optional, default = False, None
    constraints: list[tuple[str, str]] = []
    while rest:
        if rest == "?":
            optional, rest = True, ""
        elif rest[0] == "=":
            default, rest = rest[1:], ""
        elif found := re.match(r":([a-zA-Z]+)(?:\(((?:[^()]|\([^()]*\))*)\))?", rest):
            name = found[1].lower()
            if name not in _CONSTRAINTS:
                raise DevHostError(f"the route {template!r} has the unknown constraint {found[1]!r}")
            constraints.append((name, found[2] or ""))
            rest = rest[found.end() :]
        else:
            raise DevHostError(f"the route {template!r} can't be read at {rest!r}")
    return _Parameter(head[0], content != stripped, optional, default, tuple(constraints))


class Router:
    """The HTTP functions of an app under its route prefix. Raises DevHostError for a template that can't be read."""

    def __init__(self, functions: Iterable[Function], prefix: str) -> None:
        routes = [
            _Route(f, "/".join(part for part in (prefix, str(f.trigger.get("route") or f.name).strip("/")) if part))
            for f in functions
            if f.kind == "http"
        ]
        self._routes = sorted(routes, key=lambda route: route.order)

    def match(self, method: str, raw_path: str) -> Match | None:
        """The first function that takes this method and path; None when there is none.

        `raw_path` is the path as it was sent, without the query string. An encoded slash stays encoded.
        """
        path = re.sub("%2f", "%252F", raw_path, flags=re.IGNORECASE)
        parts = [unquote(part) for part in path.strip("/").split("/")] if path.strip("/") else []
        for route in self._routes:
            if method.upper() in route.methods and (params := route.match(parts)) is not None:
                return Match(route.function, params)
        return None

    def listing(self) -> list[tuple[Function, str, list[str]]]:
        """Every function with its path template and methods, for people to read."""
        return [
            (r.function, "/" + r.template, [] if r.methods == _ALL_METHODS else sorted(r.methods)) for r in self._routes
        ]
