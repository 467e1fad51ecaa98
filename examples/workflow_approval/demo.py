"""A workflow that waits for a human, shown: python examples/workflow_approval/demo.py (exit code 0 when it was seen to hold).

It starts the app of this folder with two workers and an Azurite in memory, and is its client, with the real `openai` package.
"""

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

import openai  # noqa: E402

from devhost.testing import DevHost, start_devhost  # noqa: E402

SETTINGS = {"PYTHONPATH": str(ROOT)}  # `hosting` lies beside function_app.py in an app of yours


def say(text: str) -> None:
    """A line of the demo itself, beside what the workflow says."""
    print(f"\n>>> {text}", flush=True)


def connect(host: DevHost) -> openai.OpenAI:
    """A new client: no connection, no memory."""
    return openai.OpenAI(base_url=f"{host.base_url}/v1", api_key="any", max_retries=0, timeout=60)


def ask(host: DevHost, input: Any, previous: str | None = None) -> Any:
    """One turn."""
    with connect(host) as client:
        response: Any = client.responses.create(model="refunds", input=input, previous_response_id=previous)
    for item in response.output:
        print(f"    {item.type}: {item.content[0].text if item.type == 'message' else item.to_json(indent=None)}")
    return response


def decide(response: Any, *, approve: bool) -> dict[str, Any]:
    """The answer to the approval that a response waits for."""
    (asked,) = [item for item in response.output if item.type == "mcp_approval_request"]
    return {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": approve}


def show(host: DevHost, ledger: Path) -> dict[str, bool]:
    """All of it; what holds."""
    say("a small refund is paid at once")
    small = ask(host, "Order A-1001 arrived broken.")
    say("a large one waits for a human")
    paused = ask(host, "And order A-1002, too.", small.id)
    paid_before = ledger.read_text()
    pids = host.workers
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for number, pid in enumerate(pids, 1):
        host.wait_for_worker(number, instead_of=pid)
    say(f"kill -9 of all workers, {', '.join(map(str, pids))}; new ones: {', '.join(map(str, host.workers))}")
    say("the human approves, and the customer has another request in the same message")
    answer = [decide(paused, approve=True), {"role": "user", "content": "What about A-1003?"}]
    done = ask(host, answer, paused.id)
    paid_after = ledger.read_text()
    say("another branch from the same pause: there the human declines")
    declined = ask(host, [decide(paused, approve=False)], paused.id)
    say("an answer that nobody waits for")
    unknown = {"type": "mcp_approval_response", "approval_request_id": "refund-none", "approve": True}
    try:
        refused = ask(host, [unknown], paused.id).status == "failed"
    except openai.BadRequestError as error:
        refused = "refund-none" in error.message
    return {
        "the small refund was paid at once": "Paid back 19.90" in small.output_text,
        "nothing else was paid before the approval": paid_before == "A-1001 19.90\n",
        "it was paid after it, in another process": "Paid back 249.00 for order A-1002." in done.output_text,
        "once": paid_after.splitlines() == ["A-1001 19.90", "A-1002 249.00"],
        "the new request was not lost": "A-1003: 1200.00 needs an approval (request 3)" in done.output_text,
        "the declined branch went on from the pause": "A-1002 was declined" in declined.output_text,
        "it has paid nothing": ledger.read_text() == paid_after,
        "an unknown answer is refused": refused,
    }


def main() -> int:
    """0 when everything held."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "ledger"
        ledger.touch()
        say("starting the app: two workers, and Azurite in memory")
        with start_devhost(HERE, workers=2, env={**SETTINGS, "REFUNDS_LEDGER": str(ledger)}) as host:
            checks = show(host, ledger)
    say("what was seen:")
    for text, holds in checks.items():
        print(f"    {'yes' if holds else 'NO '}  {text}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
