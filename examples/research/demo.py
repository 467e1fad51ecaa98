"""What a long run survives, shown: python examples/research/demo.py (exit code 0 when all of it was seen to hold).

It starts the app of this folder with two workers and an Azurite in memory, and is its client, with the real `openai` package.
"""

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

import openai  # noqa: E402

from devhost.testing import DevHost, start_devhost  # noqa: E402

SETTINGS = {
    "PYTHONPATH": str(ROOT),  # `hosting` lies beside function_app.py in an app of yours
    # So that the demo is short: how long a dead worker's work waits for another one. The default is a minute.
    "TASKS_LEASE_SECONDS": "3",
    "TASKS_SKEW_SECONDS": "0.2",
    "TASKS_CONTROL_SECONDS": "0.3",
}
PATIENCE = 120.0


@dataclass
class Reader:
    """All that a client has to do to get the whole text, once, over any number of connections."""

    id: str = ""
    last: int = -1
    text: str = ""
    begun: int = 0
    numbers: list[int] = field(default_factory=list[int])
    final: Any = None

    def take(self, event: Any) -> None:
        """Read one event."""
        self.last = event.sequence_number
        self.numbers.append(self.last)
        if event.type == "response.created":
            self.id = event.response.id
        elif event.type == "response.in_progress":
            # The first one says that the run begins. Another one says that it was begun again, after a crash: what was
            # read so far is replaced by what the event has, and goes on from there.
            self.begun += 1
            self.text = event.response.output_text
            if self.begun > 1:
                say("the server says: begun again after a crash, forget what you have read")
        elif event.type == "response.output_text.delta":
            self.text += event.delta
            print(event.delta, end="", flush=True)
        elif event.type in ("response.completed", "response.failed", "response.incomplete"):
            self.final = event.response

    def read(self, events: Any, until: str = "") -> None:
        """Read on until the end, or until the text contains `until`."""
        for event in events:
            self.take(event)
            if self.final is not None or (until and until in self.text):
                return


def say(text: str) -> None:
    """A line of the demo itself, beside what the agent says."""
    print(f"\n>>> {text}", flush=True)


def connect(host: DevHost) -> openai.OpenAI:
    """A new client: no connection, no memory."""
    return openai.OpenAI(base_url=f"{host.base_url}/v1", api_key="any", max_retries=0, timeout=60)


def finish(host: DevHost, reader: Reader) -> None:
    """Follow to the end with `starting_after`, however often the connection breaks."""
    deadline = time.monotonic() + PATIENCE
    while reader.final is None:
        if time.monotonic() > deadline:
            raise SystemExit("the run did not end in time")
        try:
            with connect(host) as client:
                reader.read(client.responses.retrieve(reader.id, stream=True, starting_after=reader.last))
        except openai.APIError as error:
            say(f"no connection ({type(error).__name__}), again from {reader.last}")
            time.sleep(0.5)


def crash(host: DevHost, log: Path) -> bool:
    """Scene 1: the client hangs up, all workers die, another client comes and gets the whole text."""
    say("a background run with a stream: research in six steps")
    reader = Reader()
    with connect(host) as client:
        stream = client.responses.create(model="agent", input="heat pumps", background=True, stream=True)
        reader.read(stream, until="[technology]")
        say(f"the client hangs up after event {reader.last}")
        stream.close()
    pids = host.workers
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    say(f"kill -9 of both workers: {', '.join(map(str, pids))}")
    for number, pid in enumerate(pids, 1):
        host.wait_for_worker(number, instead_of=pid)
    say(f"there are new ones: {', '.join(map(str, host.workers))}; reconnecting with starting_after={reader.last}")
    finish(host, reader)
    with connect(host) as client:
        stored = client.responses.retrieve(reader.id)
    reads = Counter(line.split("\t")[1] for line in log.read_text().splitlines())
    say("how often each source was read, over the crash:")
    for source, count in reads.items():
        print(f"    {source:20} {count}")
    # One source at most was being read when the workers died, and had not been noted.
    checks = {
        "the response is completed": stored.status == "completed",
        "the text that the client put together is the stored one": reader.text == stored.output_text,
        "it is the whole report": stored.output_text.count("\n- ") == 6,
        "the events have the numbers 0, 1, 2, ... without a gap": reader.numbers == list(range(len(reader.numbers))),
        "the run was begun twice": reader.begun == 2,
        "no finished source was read again": len(reads) == 12 and sum(reads.values()) <= 13,
    }
    return report(checks)


def steer(host: DevHost) -> bool:
    """Scene 2: the user changes the question in the middle of a run."""
    say("another run; after two steps the user says what really matters")
    first, second = Reader(), Reader()
    with connect(host) as client:
        stream = client.responses.create(model="agent", input="solar roofs", background=True, stream=True)
        first.read(stream, until="[technology]")
        say("a newer message: the costs in Norway")
        newer = client.responses.create(
            model="agent",
            input="the costs in Norway",
            previous_response_id=first.id,
            background=True,
            stream=True,
        )
        first.read(stream)
        say(f"the first run has ended: {first.final.status}, {first.final.incomplete_details.reason}")
        second.read(newer)
    checks = {
        "the first run ended early, as steered": first.final.incomplete_details.reason == "steered",
        "the second one is completed": second.final.status == "completed",
        "it kept the steps that were done": "Keeping 2 finished steps" in second.text,
        "and did the others with the new focus": second.text.count("with regard to the costs in Norway") == 8,
    }
    return report(checks)


def report(checks: dict[str, bool]) -> bool:
    """Print what holds and what does not."""
    say("what was seen:")
    for text, holds in checks.items():
        print(f"    {'yes' if holds else 'NO '}  {text}")
    return all(checks.values())


def main() -> int:
    """0 when everything held."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "reads"
        log.touch()
        say("starting the app: two workers, and Azurite in memory")
        with start_devhost(HERE, workers=2, env={**SETTINGS, "RESEARCH_LOG": str(log)}) as host:
            survived = crash(host, log)
            steered = steer(host)
    say("all of it held" if survived and steered else "something did not hold")
    return 0 if survived and steered else 1


if __name__ == "__main__":
    sys.exit(main())
