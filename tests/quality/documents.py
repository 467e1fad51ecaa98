"""The text files of the repository, and what Markdown files say: code blocks, links, headings, names in backticks."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

__all__ = ["Block", "Named", "anchors", "blocks", "commands", "links", "markdown_files", "named", "repository_files"]

_FENCE = re.compile(r"^(\s*)(```+|~~~+)\s*([\w+-]*)")
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^()\s>]+(?:\([^)]*\)[^()\s>]*)?)>?(?:\s+\"[^\"]*\")?\s*\)")
_REFERENCE = re.compile(r"^\s*\[[^\]]+\]:\s+(\S+)")
_BACKTICKS = re.compile(r"(?<!`)`([^`]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced code block. `line` is that of its first line of code, counted from 1."""

    path: Path
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Named:
    """Something that a line of a file names: a link's target, or the words in backticks."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.text}"


@cache
def repository_files() -> tuple[Path, ...]:
    """Files that are in the repository, or will be with the next commit: what git ignores is not among them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def markdown_files() -> tuple[Path, ...]:
    """All Markdown files of the repository."""
    return tuple(path for path in repository_files() if path.suffix == ".md")


@cache
def blocks(path: Path) -> tuple[Block, ...]:
    """The code blocks of a file, without the indentation of a list that they stand in."""
    return tuple(_split(path)[1])


@cache
def _split(path: Path) -> tuple[list[tuple[int, str]], list[Block]]:
    """The lines of prose with their numbers, and the code blocks."""
    prose: list[tuple[int, str]] = []
    found: list[Block] = []
    fence: re.Match[str] | None = None
    code: list[str] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if fence is None:
            fence = _FENCE.match(line)
            code = []
            if fence is None:
                prose.append((number, line))
        elif line.strip().startswith(fence[2]) and not line.strip().strip(fence[2][0]):
            found.append(Block(path, number - len(code), fence[3].lower(), "".join(f"{text}\n" for text in code)))
            fence = None
        else:
            code.append(line.removeprefix(fence[1]))
    assert fence is None, f"{path} ends inside a code block"
    return prose, found


def commands(block: Block) -> Iterator[str]:
    """The commands of a shell block: continued lines as one, without comments and prompts."""
    text = block.code.replace("\\\n", " ")
    for line in text.splitlines():
        command = re.sub(r"(^|\s)#.*$", "", line).strip().removeprefix("$ ")
        if command:
            yield command


@cache
def links(path: Path) -> tuple[Named, ...]:
    """The targets of links and pictures."""
    found: list[Named] = []
    for number, line in _split(path)[0]:
        bare = _BACKTICKS.sub("code", line)
        targets = [match[1] for match in _LINK.finditer(bare)]
        if (reference := _REFERENCE.match(bare)) is not None:
            targets.append(reference[1])
        found += [Named(path, number, target) for target in targets]
    return tuple(found)


@cache
def named(path: Path) -> tuple[Named, ...]:
    """What stands in backticks in the prose, also when it goes over the end of a line."""
    lines = _split(path)[0]
    text = "".join(f"{line}\n" for _, line in lines)
    return tuple(
        Named(path, lines[text.count("\n", 0, match.start())][0], " ".join(match[1].split()))
        for match in _BACKTICKS.finditer(text)
        if "\n\n" not in match[1]
    )


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors that GitHub makes of the headings of a file."""
    found: dict[str, int] = {}
    result: set[str] = set()
    for _, line in _split(path)[0]:
        heading = re.match(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$", line)
        explicit = re.findall(r"<a\s+(?:id|name)=\"([^\"]+)\"", line)
        result |= set(explicit)
        if heading is None:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = found.get(slug, 0)
        found[slug] = number + 1
        result.add(slug if number == 0 else f"{slug}-{number}")
    return frozenset(result)
