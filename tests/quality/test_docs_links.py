"""What the documents point at exists, and nothing in the repository knows the machine that it was written on."""

import importlib
import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.conftest import ROOT
from tests.quality.documents import Named, anchors, links, markdown_files, named, repository_files

_FOLDERS = {path.relative_to(ROOT).parts[0] for path in repository_files() if len(path.relative_to(ROOT).parts) > 1}
_PATH = re.compile(r"[\w.@{}*-]+(?:/[\w.@{}*-]*)+")
_MODULE = re.compile(r"(?:hosting|devhost|bench)(?:\.\w+)+")

# In two parts each, so that this file passes its own test.
_FOREIGN = {
    "a path of one machine": re.compile(
        "|".join(
            (
                r"(?<![\w./$}-])/wo" + r"rk/",
                "/tm" + "p/scratch",
                r"(?<![\w./$}-])/ro" + r"ot/",
                r"~/\.py" + "env",
                "/opt/py" + "pi",
            )
        )
    ),
    "the host of a package registry": re.compile(
        "|".join(
            (
                r"registry\.npm" + "js",
                r"registry\.yarn" + "pkg",
                r"deb\.deb" + r"ian\.org",
                r"files\.python" + "hosted",
                r"pypi\.org/sim" + "ple",
                r"proxy\.gol" + "ang",
            )
        )
    ),
}


def of_all_documents(kind: str) -> list[Named]:
    read = {"links": links, "named": named}[kind]
    return [found for path in markdown_files() for found in read(path)]


def test_there_are_documents_with_links() -> None:
    assert len(markdown_files()) >= 8
    assert len(of_all_documents("links")) >= 20


@pytest.mark.parametrize("path", markdown_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    broken: list[str] = []
    for link in links(path):
        target, _, anchor = unquote(link.text).partition("#")
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file = (path.parent / target).resolve() if target else path
        if not file.exists():
            broken.append(f"{link} (no such file)")
        elif not file.is_relative_to(ROOT):
            broken.append(f"{link} (outside the repository)")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            broken.append(f"{link} (no such heading)")
    assert broken == []


def test_every_path_in_backticks_exists() -> None:
    missing: list[str] = []
    for name in of_all_documents("named"):
        for word in name.text.split():
            path = word.rstrip(".,;:)").partition("::")[0].removeprefix("./")
            if _PATH.fullmatch(path) is None or path.partition("/")[0] not in _FOLDERS:
                continue
            pattern = re.sub(r"\{[^}]*\}", "*", path).rstrip("/")
            # A folder's own README may leave out the folder.
            if not any(True for base in (ROOT, name.path.parent) for _ in base.glob(pattern)):
                missing.append(str(name))
    assert missing == []


def test_every_document_that_a_file_names_exists() -> None:
    """Settings, scripts and error messages send their readers to documents too."""
    missing: list[str] = []
    for path in repository_files():
        if path.suffix not in (".py", ".sh", ".ps1", ".bicep", ".yml", ".yaml", ".json", ".txt", ".toml", ""):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for match in re.finditer(r"(?<![\w./-])(?:docs|devhost|examples|infra)/[\w/-]+\.md\b", line):
                if not (ROOT / match[0]).is_file():
                    missing.append(f"{path.relative_to(ROOT)}:{number}: {match[0]}")
    assert missing == []


def test_every_module_and_name_in_backticks_exists() -> None:
    """Dotted names are modules and what is in them, or what the code calls something, such as a metric."""
    source = "".join(path.read_text() for path in repository_files() if path.is_relative_to(ROOT / "hosting"))
    missing: list[str] = []
    for name in of_all_documents("named"):
        for match in _MODULE.finditer(name.text):
            before = name.text[: match.start()]
            if before and not before[-1].isspace() and before[-1] not in "(@":
                continue  # part of something longer, such as a path
            if not _resolves(match[0]) and f'"{match[0]}"' not in source:
                missing.append(str(name))
    assert missing == []


def _resolves(dotted: str) -> bool:
    parts = dotted.split(".")
    if parts[-1] in ("py", "md", "json"):
        return True  # a file name, which is a path
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


@pytest.mark.parametrize("what", _FOREIGN)
def test_no_file_knows_the_machine_that_it_was_written_on(what: str) -> None:
    found: list[str] = []
    for path in repository_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # not a text
        for number, line in enumerate(lines, 1):
            if _FOREIGN[what].search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert found == []
