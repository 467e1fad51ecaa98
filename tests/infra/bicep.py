"""Just enough Bicep to check infra/ without the compiler: declarations, literals and who passes what to whom.

It knows no types and no Azure: CI runs the real compiler (.github/workflows/ci.yml).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tree_sitter_bicep
from tree_sitter import Language, Node, Parser

__all__ = [
    "ROOT",
    "BicepFile",
    "Module",
    "Param",
    "Resource",
    "bicep_files",
    "literal",
    "load",
    "members",
    "text",
    "used_names",
    "walk",
]

ROOT = Path(__file__).resolve().parents[2]

_PARSER = Parser(Language(tree_sitter_bicep.language()))


@dataclass(frozen=True)
class Param:
    """`default` is the literal as text, None for a required parameter or a default that is no literal."""

    required: bool
    default: str | None = None
    allowed: tuple[str, ...] = ()
    secure: bool = False


@dataclass(frozen=True)
class Module:
    path: Path
    arguments: Mapping[str, Node]


@dataclass(frozen=True)
class Resource:
    type: str
    existing: bool
    body: Node


@dataclass
class BicepFile:
    path: Path
    root: Node
    params: dict[str, Param] = field(default_factory=dict)
    variables: dict[str, Node] = field(default_factory=dict)
    outputs: dict[str, Node] = field(default_factory=dict)
    modules: dict[str, Module] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)

    def errors(self) -> list[str]:
        """Places that do not parse, as `line: text`."""
        bad = [n for n in walk(self.root) if n.type == "ERROR" or n.is_missing]
        return [f"{n.start_point[0] + 1}: {text(n)[:60]}" for n in bad]


def bicep_files() -> list[Path]:
    return sorted((ROOT / "infra").rglob("*.bicep"))


def load(path: Path) -> BicepFile:
    file = BicepFile(path, _PARSER.parse(path.read_bytes()).root_node)
    decorators: list[Node] = []
    for node in file.root.named_children:
        if node.type == "decorators":
            decorators.append(node)
        elif node.type != "comment":
            _declare(file, node, decorators)
            decorators = []
    return file


def _declare(file: BicepFile, node: Node, decorators: list[Node]) -> None:
    parts = [child for child in node.named_children if child.type != "comment"]
    name = text(parts[0]) if parts else ""
    value = parts[-1] if parts else node
    match node.type:
        case "parameter_declaration":
            required = len(parts) < 3
            calls = {text(n.named_children[0]): n for d in decorators for n in walk(d) if n.type == "call_expression"}
            allowed = walk(calls["allowed"]) if "allowed" in calls else ()
            file.params[name] = Param(
                required,
                None if required else literal(value),
                tuple(found for n in allowed if (found := literal(n)) is not None),
                "secure" in calls,
            )
        case "variable_declaration":
            file.variables[name] = value
        case "output_declaration":
            file.outputs[name] = value
        case "module_declaration":
            path = file.path.parent / (literal(parts[1]) or "")
            file.modules[name] = Module(path, members(members(_object(value)).get("params")))
        case "resource_declaration":
            kind = (literal(parts[1]) or "").partition("@")[0]
            file.resources[name] = Resource(kind, " existing " in text(node).partition("{")[0], _object(value))
        case _:
            pass


def _object(node: Node) -> Node:
    """The body under `if (...)` and `[for ...]`."""
    while node.type in ("if_statement", "for_statement"):
        node = node.named_children[-1]
    return node


def members(node: Node | None) -> dict[str, Node]:
    """The keys and values of an object literal; {} for anything else."""
    found: dict[str, Node] = {}
    for item in node.named_children if node is not None and node.type == "object" else ():
        parts = [child for child in item.named_children if child.type != "comment"]
        if item.type == "object_property" and len(parts) == 2:
            found[literal(parts[0]) or text(parts[0])] = parts[1]
    return found


def used_names(file: BicepFile) -> set[str]:
    """Names that are read somewhere; the name that a declaration or an object's key introduces is not."""
    introduced = ("_declaration", "object_property")
    found: set[str] = set()
    for node in walk(file.root):
        parent = node.parent
        if node.type == "identifier" and parent is not None:
            first = parent.named_children[0] == node and parent.type.endswith(introduced)
            if not first:
                found.add(text(node))
    return found


def literal(node: Node) -> str | None:
    """A string without interpolation, a number or a boolean, as text; None for all else."""
    if node.type in ("number", "boolean"):
        return text(node)
    if node.type == "unary_expression" and re.fullmatch(r"-\d+", text(node)):
        return text(node)
    if node.type != "string" or any(child.type == "interpolation" for child in node.named_children):
        return None
    return text(node)[1:-1]


def text(node: Node) -> str:
    return (node.text or b"").decode()


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)
