"""An agent that researches a topic in six steps and says what it finds as it goes: offline, and the same every time.

It is no agent-framework `Agent`, only an object with the methods of `SupportsAgentRun`. What it has found is in the session,
which is stored with the turn also when the user steers: the turn after that goes on with the steps that are left.
"""

import hashlib
from collections.abc import AsyncIterator
from typing import Any

from agent_framework import AgentResponse, AgentResponseUpdate, AgentSession, Content, Message, ResponseStream
from steps import once, research_step

STEPS = {
    "background": ["encyclopedia", "textbook"],
    "market": ["industry survey", "annual reports"],
    "technology": ["patents", "papers"],
    "risks": ["incident database", "audits"],
    "costs": ["price lists", "tenders"],
    "outlook": ["forecasts", "interviews"],
}


class Researcher:
    """`run` streams a report. Ask for a topic first; a later message of the conversation sets the focus of what is left."""

    id = name = "researcher"
    description = "Researches a topic step by step."

    def create_session(self, *, session_id: str | None = None) -> AgentSession:
        """A conversation begins."""
        return AgentSession(session_id=session_id)

    def get_session(self, service_session_id: Any, *, session_id: str | None = None) -> AgentSession:
        """For agents whose service keeps the conversation."""
        raise NotImplementedError("this agent has no service behind it")

    def run(self, messages: Any = None, *, stream: bool = False, session: AgentSession | None = None, **_: Any) -> Any:
        """A `ResponseStream` with `stream`, else an awaitable of an `AgentResponse`."""
        updates = self._updates(_text(messages), session or self.create_session())
        if stream:
            return ResponseStream(updates, finalizer=AgentResponse.from_updates)
        return _collect(updates)

    async def _updates(self, text: str, session: AgentSession) -> AsyncIterator[AgentResponseUpdate]:
        state = session.state.setdefault("research", {"topic": text, "findings": {}})
        topic, findings = state["topic"], state["findings"]
        focus = text if text != topic else ""
        left = [step for step in STEPS if step not in findings]
        if focus and findings:
            yield _say(f"Keeping {len(findings)} finished steps. The others: {focus}.\n")
        else:
            yield _say(f"Researching {topic}, {len(left)} steps.\n")
        for step in left:
            yield _say(f"\n[{step}] reading {' and '.join(STEPS[step])} ...\n")
            given = {"step": step, "topic": topic, "focus": focus, "sources": STEPS[step]}
            findings[step] = await once(research_step, _task_id(session, step, focus), given)
            for word in findings[step].split(" "):
                yield _say(f"{word} ")
            yield _say("\n")
        yield _say("\nReport\n" + "".join(f"- {findings[step]}\n" for step in STEPS))


def _task_id(session: AgentSession, step: str, focus: str) -> str:
    """The same after a crash, because the session's id is; another one for another focus."""
    return f"{session.session_id}.{step}.{hashlib.sha256(focus.encode()).hexdigest()[:8]}"


def _text(messages: Any) -> str:
    """The newest message of the user."""
    if isinstance(messages, str):
        return messages
    users = [message.text for message in messages or [] if isinstance(message, Message) and message.role == "user"]
    return users[-1].strip() if users else ""


def _say(text: str) -> AgentResponseUpdate:
    return AgentResponseUpdate(role="assistant", contents=[Content.from_text(text)])


async def _collect(updates: AsyncIterator[AgentResponseUpdate]) -> AgentResponse:
    return AgentResponse.from_updates([update async for update in updates])
