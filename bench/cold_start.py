"""What a new instance costs: CPU to import the app, beside the platform's own floor; time to the first answer."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.table import show
from devhost.azurite import run_azurite

_ROUNDS = 7
_FLOOR = "import azure.functions, azure.durable_functions, azurefunctions.extensions.http.fastapi"
_APP = "import function_app"


def main() -> None:
    """Fresh processes, taken in turn so that a busy moment of the machine hits both."""
    environment = {
        name: value
        for name, value in os.environ.items()
        # Installed packages have byte code; without the last one ours would be compiled in every process.
        if not name.startswith(("AZURE_OPENAI", "OPENAI", "HOSTING_", "AzureWebJobsStorage", "PYTHONDONTWRITE"))
    }
    environment |= {"AZURE_FUNCTIONS_ENVIRONMENT": "Development", "AzureWebJobsStorage": "UseDevelopmentStorage=true"}
    measured: dict[str, list[float]] = {_FLOOR: [], _APP: []}
    for number in range(_ROUNDS + 1):
        for code, seconds in measured.items():
            spent = _cpu_seconds(code, environment)
            if number:  # the first round warms the disk's cache and writes byte code
                seconds.append(spent)
    floor, app = (statistics.median(seconds) for seconds in measured.values())
    show(
        f"CPU seconds to import, median of {_ROUNDS} fresh processes (Python's own start included)",
        ["what", "CPU s", "times the floor"],
        [
            ["the platform: azure.functions, azure.durable_functions, FastAPI extension", f"{floor:.2f}", "1.00"],
            ["function_app (no model configured)", f"{app:.2f}", f"{app / floor:.2f}"],
        ],
    )
    first = asyncio.run(_first_answers(environment))
    show(
        "Cold start to first answer: process start, import, agent made, storage connected, one turn stored",
        ["", "seconds"],
        [["median of 5", f"{statistics.median(first):.2f}"], ["slowest of 5", f"{max(first):.2f}"]],
    )


def _cpu_seconds(code: str, environment: dict[str, str]) -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=Path.cwd())
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


async def _first_answers(environment: dict[str, str]) -> list[float]:
    async with run_azurite(Path.cwd()) as azurite:
        environment = environment | {"AzureWebJobsStorage": azurite.connection_string}
        seconds: list[float] = []
        for number in range(6):
            started = time.perf_counter()
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", "from bench.cold_start import answer; answer()", env=environment
            )
            assert await process.wait() == 0
            if number:
                seconds.append(time.perf_counter() - started)
        return seconds


def answer() -> None:
    """In a fresh process: load the app as the worker does and answer one request."""
    import function_app
    from hosting.server import Request, ResponsesServer
    from hosting.settings import load_settings
    from hosting.state import AgentState
    from hosting.storage import connect

    body = json.dumps({"input": "Hello"}).encode()

    async def read(limit: int) -> bytes:
        return body

    async def ask() -> None:
        state = AgentState(function_app.create_agent)
        store = connect(os.environ)
        server = ResponsesServer(state, load_settings(), lambda: store)
        response = await server.handle("v1/responses", Request("POST", "/v1/responses", read=read))
        assert response.status == 200, response.body
        await server.close()
        await store.close()

    asyncio.run(ask())
