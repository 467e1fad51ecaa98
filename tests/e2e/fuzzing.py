"""Schemathesis, set up for this server: which checks count, and requests that name things which exist.

What it generates by itself names random ids, which are all 404. So some of its requests get the id of an object that an
earlier answer had, and each Idempotency-Key is made to go with one body.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events, from_schema
from schemathesis.hooks import GLOBAL_HOOK_DISPATCHER

__all__ = ["Findings", "fuzz"]

_SEED = 20301
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "allow_header_conformance",
    "negative_data_rejection",  # else the document would promise a check that the server does not make
)


@dataclass
class Findings:
    """What a run has found: faults by what went wrong where, and how often each operation answered with which status."""

    faults: dict[str, str] = field(default_factory=dict[str, str])
    statuses: dict[str, Counter[int]] = field(default_factory=dict[str, Counter[int]])

    def report(self) -> str:
        """Every fault with a request that shows it."""
        return "\n\n".join(f"{where}\n{how}" for where, how in self.faults.items())


def fuzz(app: Any, path: str, *, examples: int) -> Findings:
    """Call every operation of the document at `path`: with the document's examples, at the bounds of what it allows and
    beyond them, and with `examples` generated requests. The same seed every time."""
    schema = schemathesis.openapi.from_asgi(path, app, config=_config(examples))
    known = _KnownIds()

    def before_call(context: Any, case: Any, kwargs: Any) -> None:
        known.put_into(case)

    def after_call(context: Any, case: Any, response: Any) -> None:
        known.learn_from(case, response)

    hooks = schemathesis.hook("before_call")(before_call), schemathesis.hook("after_call")(after_call)
    findings = Findings(statuses={found.ok().label: Counter() for found in schema.get_all_operations()})
    try:
        for event in from_schema(schema).execute():
            match event:
                case events.NonFatalError():
                    findings.faults[event.label] = str(event.value)
                case events.ScenarioFinished():
                    _collect(findings, event.recorder)
                case _:
                    pass
    finally:
        for hook in hooks:  # they can only be set for the whole process
            GLOBAL_HOOK_DISPATCHER.unregister(hook)
    return findings


def _config(examples: int) -> SchemathesisConfig:
    return SchemathesisConfig.from_dict(
        {
            "seed": _SEED,
            "suppress-health-check": ["all"],
            "cache": {"enabled": False},
            "request-timeout": 30,
            "continue-on-failure": True,
            "checks": {"enabled": False} | {name: {"enabled": True} for name in _CHECKS},
            "generation": {"max-examples": examples, "database": "none", "no-shrink": True},
            "operations": [
                {
                    # Its header counts only with `stream=true`, which JSON Schema can't say.
                    "include-operation-id": "getResponse",
                    "checks": {"negative_data_rejection": {"enabled": False}},
                },
                # Their items are those of createResponse and are read by the same code: a thousand cases each of no more.
                *(
                    {"include-operation-id": name, "phases": {"coverage": {"enabled": False}}}
                    for name in ("createConversation", "addConversationItems")
                ),
            ],
            # Its stateful phase does not start from an operation whose body names other objects; _KnownIds does.
            "phases": {"stateful": {"enabled": False}},
        }
    )


def _collect(findings: Findings, recorder: Any) -> None:
    for identifier, interaction in recorder.interactions.items():
        if interaction.response is not None:
            label = recorder.cases[identifier].value.operation.label
            findings.statuses[label][interaction.response.status_code] += 1
    for identifier, checks in recorder.checks.items():
        label = recorder.cases[identifier].value.operation.label
        for check in checks:
            if (info := check.failure_info) is not None:
                key = f"{label}: {info.failure.title}"
                findings.faults.setdefault(key, f"{info.failure.message}\n{info.code_sample}")


class _KnownIds:
    """Ids that the server has given out, by the kind of object, and the requests that they go into."""

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] = defaultdict(list)
        self._items: list[tuple[str, str]] = []
        self._random = random.Random(_SEED)
        self._keys = 0

    def put_into(self, case: Any) -> None:
        path = case.path_parameters or {}
        if case.method == "DELETE" and "item_id" not in path:
            self._put_oldest_into(path)
            return
        # Only background responses can be cancelled and followed, and they are few.
        responses = self._random.choice(("response", "background"))
        for name, prefix, kind in (("response_id", "resp", responses), ("conversation_id", "conv", "conversation")):
            # One that can be no id was meant to be wrong, and stays so.
            if str(path.get(name, "")).startswith(prefix) and (identifier := self._pick(self._ids[kind])):
                path[name] = identifier
        meant = str(path.get("conversation_id", "")).startswith("conv") and "item_id" in path
        if meant and (known := self._pick(self._items)) is not None:
            path["conversation_id"], path["item_id"] = known
        body = case.body
        if isinstance(body, dict):
            for name, prefix, kind in (
                ("previous_response_id", "resp_", "response"),
                ("conversation", "conv_", "conversation"),
            ):
                if str(body.get(name)).startswith(prefix) and (identifier := self._pick(self._ids[kind])):
                    body[name] = identifier
        headers = case.headers or {}
        if 0 < len(key := headers.get("Idempotency-Key") or "") <= 255:
            self._keys += 1
            headers["Idempotency-Key"] = f"{self._keys}-{key}"[:255]

    def _put_oldest_into(self, path: dict[str, Any]) -> None:
        """What is to be deleted: the newest ones, and those with items, must be left for the other operations."""
        kept = {conversation for conversation, _ in self._items}
        for name, prefix, kind in (("response_id", "resp", "response"), ("conversation_id", "conv", "conversation")):
            free = [known for known in self._ids[kind][:-8] if known not in kept]
            if free and str(path.get(name, "")).startswith(prefix):
                path[name] = free[0]
                self._ids[kind].remove(free[0])

    def learn_from(self, case: Any, response: Any) -> None:
        if response.status_code != 200 or "json" not in response.headers.get("content-type", [""])[0]:
            return
        answer = json.loads(response.content)
        if not isinstance(answer, Mapping):
            return
        if answer.get("object") in ("response", "conversation"):
            kind = "background" if answer.get("background") else answer["object"]
            self._ids[kind].append(answer["id"])
        path = case.path_parameters or {}
        conversation, item = path.get("conversation_id"), path.get("item_id")
        if answer.get("object") == "conversation.deleted":
            self._ids["conversation"] = [known for known in self._ids["conversation"] if known != conversation]
        if case.method == "DELETE":  # some must be left for the others, also after a row of deletions
            self._items = [known for known in self._items if known[0] != conversation or item not in (None, known[1])]
        elif conversation is not None and answer.get("object") == "list":
            self._items += [(conversation, item["id"]) for item in answer["data"]]

    def _pick[T](self, ids: list[T]) -> T | None:
        """One of the newest, more often than not."""
        return self._random.choice(ids[-8:]) if ids and self._random.random() < 0.7 else None
