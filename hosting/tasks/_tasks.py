"""What the decorators return."""

from typing import TYPE_CHECKING

from hosting.tasks import _ids
from hosting.tasks._caller import current_scope
from hosting.tasks._codec import json_size
from hosting.tasks._current import current_engine
from hosting.tasks._exceptions import InputTooLarge
from hosting.tasks._options import INPUT_BYTES
from hosting.tasks._record import Slot, slots
from hosting.tasks._registry import Declared
from hosting.tasks._rows import Key
from hosting.tasks._run import TaskRun

if TYPE_CHECKING:
    from hosting.tasks._engine import Engine

__all__ = ["MultiTurnTask", "Task"]


class _Base[Input, Output]:
    def __init__(self, declared: Declared) -> None:
        self._declared = declared

    @property
    def name(self) -> str:
        """The name that it is declared under."""
        return self._declared.name

    @property
    def declared(self) -> Declared:
        """For the floors above: what the engine needs to start it."""
        return self._declared

    async def _start(
        self,
        task_id: str | None,
        input: Input,
        input_id: str | None,
        if_last_input_id: str | None,
        *,
        fresh: bool = False,
    ) -> TaskRun[Output]:
        from hosting.tasks._acceptance import StartRequest

        known_new = task_id is None
        task_id = _ids.new_task_id() if task_id is None else _ids.check_id(task_id, "task_id")
        if input_id is not None:
            _ids.check_id(input_id, "input_id")
        else:
            input_id = task_id if self._declared.kind == "one_shot" else _ids.new_input_id()
        if if_last_input_id is not None:
            _ids.check_id(if_last_input_id, "if_last_input_id")
        document = self._declared.input.encode(input, "input")
        if (size := json_size(document)) > INPUT_BYTES:
            raise InputTooLarge(f"the input has {size:,} bytes of JSON, at most {INPUT_BYTES:,} are possible")
        engine, key = current_engine(), Key(current_scope(), task_id)
        request = StartRequest(self._declared, key, input_id, document, if_last_input_id, known_new)
        accepted = await engine.start(request)
        return self._handle(engine, key, accepted.slot, queued=accepted.queued, fresh=fresh)

    async def _active(self, task_id: str, input_id: str | None) -> TaskRun[Output] | None:
        engine, key = current_engine(), Key(current_scope(), _ids.check_id(task_id, "task_id"))
        record = await engine.record(key)
        if record is None or record.name != self.name:
            return None
        for slot in slots(record):
            if input_id is None or slot.input_id == input_id:
                return self._handle(engine, key, slot, queued=slot != record.active, fresh=False)
        return None

    async def _any(self, task_id: str, input_id: str) -> TaskRun[Output] | None:
        if (active := await self._active(task_id, input_id)) is not None:
            return active
        engine, key = current_engine(), Key(current_scope(), task_id)
        seq = await engine.last_seq(key, input_id)
        return None if seq is None else TaskRun(engine, self._declared, key, input_id, seq, fresh=False)

    def _handle(self, engine: "Engine", key: Key, slot: Slot, *, queued: bool, fresh: bool) -> TaskRun[Output]:
        return TaskRun(engine, self._declared, key, slot.input_id, slot.seq, queued=queued, fresh=fresh)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Task[Input, Output](_Base[Input, Output]):
    """A one-shot: one input, one result. A task_id whose run has ended can be used again, and begins afresh."""

    async def start(
        self,
        *,
        input: Input,
        task_id: str | None = None,
        input_id: str | None = None,
        if_last_input_id: str | None = None,
    ) -> TaskRun[Output]:
        """Store the input and have it run; returns as soon as it is durable.

        Without `task_id` a new one is made; `input_id` is the task_id unless given. Raises ValueError for an id outside the
        grammar, TypeError or ValueError (naming the path) for an input that JSON can't hold, InputTooLarge,
        TaskConflictError while the task_id is in flight, LastInputIdPreconditionFailed, TaskManagerNotInitialized, and
        StorageError: after StorageUnavailable the input may have been accepted.
        """
        return await self._start(task_id, input, input_id, if_last_input_id)

    async def run(
        self,
        *,
        input: Input,
        task_id: str | None = None,
        input_id: str | None = None,
        if_last_input_id: str | None = None,
    ) -> Output:
        """`start`, then the result."""
        run = await self._start(task_id, input, input_id, if_last_input_id, fresh=True)
        return await run.result()

    async def get_active_run(self, task_id: str) -> TaskRun[Output] | None:
        """A handle for the run of this task_id that is in flight, None when there is none."""
        return await self._active(task_id, None)

    async def get_run(self, task_id: str, input_id: str | None = None) -> TaskRun[Output] | None:
        """A handle for the newest run of this task_id, also one that has ended and whose outcome is still kept; None for
        any other. (Not in the published package.)"""
        return await self._any(_ids.check_id(task_id, "task_id"), task_id if input_id is None else input_id)


class MultiTurnTask[Input, Output](_Base[Input, Output]):
    """A chain of turns, one after the other; between them it is suspended. It ends only by `delete`."""

    async def start(
        self, *, task_id: str, input: Input, input_id: str | None = None, if_last_input_id: str | None = None
    ) -> TaskRun[Output]:
        """Store the input of a turn and have it run: at once when the chain is idle, behind the active turn when the task
        is steerable; returns as soon as it is durable.

        `if_last_input_id` names the input that the caller believes to be the newest one accepted; that is checked in the
        transaction that accepts. Raises as `Task.start` does, and SteeringQueueFull when nine inputs wait.
        """
        return await self._start(task_id, input, input_id, if_last_input_id)

    async def run(
        self, *, task_id: str, input: Input, input_id: str | None = None, if_last_input_id: str | None = None
    ) -> Output:
        """`start`, then the result of this turn."""
        run = await self._start(task_id, input, input_id, if_last_input_id, fresh=True)
        return await run.result()

    async def get_active_run(self, task_id: str, input_id: str) -> TaskRun[Output] | None:
        """A handle for exactly that turn while it is active or queued, None otherwise."""
        return await self._active(task_id, input_id)

    async def get_run(self, task_id: str, input_id: str) -> TaskRun[Output] | None:
        """A handle for the newest turn with that input, also one that has ended and whose outcome is still kept; None for
        any other. (Not in the published package.)"""
        return await self._any(_ids.check_id(task_id, "task_id"), input_id)

    async def delete(self, task_id: str) -> None:
        """Delete the chain whatever it is doing, with its metadata and kept outcomes; whoever waits for one of its turns
        gets TaskCancelled. Idempotent; the next `start` is fresh. Raises StorageError: then call it again."""
        engine = current_engine()
        await engine.delete(Key(current_scope(), _ids.check_id(task_id, "task_id")))
