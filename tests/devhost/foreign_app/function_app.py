"""An ordinary Functions app, no part of this project: what devhost must run without knowing it.

HTTP by the FastAPI extension, timers, and durable functions of generation 2. Files under the folder of the setting
JOURNAL tell the tests what happened in here.
"""

import asyncio
import json
import logging
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import azure.durable_functions as df
import azure.functions as func
from azurefunctions.extensions.http.fastapi import JSONResponse, Request, Response, StreamingResponse
from web import blueprint

app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)
app.register_functions(blueprint)

retry_quickly = df.RetryOptions(first_retry_interval_in_milliseconds=100, max_number_of_attempts=3)


def note(name: str, text: str) -> None:
    """Append a line to a journal file."""
    with (Path(os.environ["JOURNAL"]) / name).open("a") as file:
        file.write(text + "\n")


def install_sigterm() -> None:
    """As an app does that wants to tidy up: a callback on the loop that starts asynchronous work."""

    async def tidy_up() -> None:
        note("sigterm", f"tidying {os.getpid()}")
        await asyncio.sleep(0.2)
        note("sigterm", f"tidied {os.getpid()}")

    loop = asyncio.get_running_loop()
    tasks = []
    loop.add_signal_handler(signal.SIGTERM, lambda: tasks.append(loop.create_task(tidy_up())))


install_sigterm()


@app.timer_trigger(arg_name="timer", schedule="%TICK_SCHEDULE%")
def tick(timer: func.TimerRequest) -> None:
    note("tick", json.dumps({"pid": os.getpid(), "past_due": timer.past_due, "next": timer.schedule_status["Next"]}))


@app.timer_trigger(arg_name="timer", schedule="0 0 0 1 1 *", run_on_startup=True)
async def at_start(timer: func.TimerRequest) -> None:
    logging.info("the start-up timer runs")
    note("at_start", str(os.getpid()))


@app.timer_trigger(arg_name="timer", schedule="00:00:01")
async def slow_tick(timer: func.TimerRequest) -> None:
    note("slow_tick", "begin")
    await asyncio.sleep(1.2)
    note("slow_tick", "end")


@app.route(route="start/{name}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def start(req: Request, client: df.DurableFunctionsClient) -> Response:
    instance_id = await client.schedule_new_orchestration(
        req.path_params["name"], input=await req.json(), instance_id=req.query_params.get("id")
    )
    return JSONResponse({"id": instance_id}, status_code=202)


@app.route(route="runs/{id}", methods=["GET"])
@app.durable_client_input(client_name="client")
async def run_status(req: Request, client: df.DurableFunctionsClient) -> Response:
    state = await client.get_orchestration_state(req.path_params["id"])
    if state is None:
        return JSONResponse({"error": "unknown"}, status_code=404)
    failure = state.failure_details
    return JSONResponse(
        {
            "status": state.runtime_status.name,
            "output": json.loads(state.serialized_output) if state.serialized_output else None,
            "error": {"type": failure.error_type, "message": failure.message} if failure else None,
        }
    )


@app.route(route="runs/{id}/events/{event}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def raise_event(req: Request, client: df.DurableFunctionsClient) -> Response:
    await client.raise_orchestration_event(req.path_params["id"], req.path_params["event"], data=await req.json())
    return Response(status_code=202)


@app.route(route="counters/{key}", methods=["GET", "POST"])
@app.durable_client_input(client_name="client")
async def counters(req: Request, client: df.DurableFunctionsClient) -> Response:
    entity = df.EntityId("Counter", req.path_params["key"])
    if req.method == "POST":
        await client.signal_entity(entity, "add", int((await req.body()) or 1))
        return Response(status_code=202)
    state = await client.read_entity_state(entity)
    return JSONResponse({"value": state.entity_state})


@app.route(route="binding")
@app.generic_input_binding(arg_name="config", type="durableClient")
async def raw_binding(req: Request, config: str) -> Response:
    return JSONResponse(json.loads(config))


@app.orchestration_trigger(context_name="context")
def fan_out(context: df.DurableOrchestrationContext):
    numbers = context.get_input()
    squares = yield context.task_all([context.call_activity("square", n) for n in numbers])
    return sum(squares)


@app.orchestration_trigger(context_name="context")
def meeting(context: df.DurableOrchestrationContext):
    key, count = context.get_input()
    met = yield context.task_all([context.call_activity("meet", {"key": key, "count": count}) for _ in range(count)])
    return met


@app.orchestration_trigger(context_name="context")
def nap(context: df.DurableOrchestrationContext):
    began = context.current_utc_datetime
    yield context.create_timer(began + timedelta(seconds=context.get_input()))
    return (context.current_utc_datetime - began).total_seconds()


@app.orchestration_trigger(context_name="context")
def parent(context: df.DurableOrchestrationContext):
    answer = yield context.call_sub_orchestrator("fan_out", context.get_input())
    return {"child": answer}


@app.orchestration_trigger(context_name="context")
def wait_for_word(context: df.DurableOrchestrationContext):
    word = yield context.wait_for_external_event("word")
    return f"heard {word}"


@app.orchestration_trigger(context_name="context")
def stubborn(context: df.DurableOrchestrationContext):
    answer = yield context.call_activity_with_retry("fails_twice", retry_quickly, context.get_input())
    return answer


@app.orchestration_trigger(context_name="context")
def hopeless(context: df.DurableOrchestrationContext):
    yield context.call_activity("raises", context.get_input())


@app.orchestration_trigger(context_name="context")
def calls_nothing(context: df.DurableOrchestrationContext):
    yield context.call_activity("no_such_activity", None)


@app.orchestration_trigger(context_name="context")
def count_with_entity(context: df.DurableOrchestrationContext):
    entity = df.EntityId("Counter", context.get_input())
    yield context.call_entity(entity, "add", 5)
    value = yield context.call_entity(entity, "get")
    return value


@app.orchestration_trigger(context_name="context")
def rounds(context: df.DurableOrchestrationContext):
    """Each round leaves a timer behind that must not fire in the next one."""
    left = context.get_input()
    seconds = 4.0  # enough for the test to end the rounds before on a slow machine
    event = context.wait_for_external_event("go")
    late = context.create_timer(context.current_utc_datetime + timedelta(seconds=seconds))
    winner = yield context.task_any([event, late])
    if winner is late:
        return f"timer with {left} left"
    if left == 0:
        return "all rounds"
    context.continue_as_new(left - 1)
    return None


@app.orchestration_trigger(context_name="context")
def survivor(context: df.DurableOrchestrationContext):
    answer = yield context.call_activity("slow_step", context.get_input())
    return answer


@app.activity_trigger(input_name="n")
def square(n: int) -> int:
    note("square", str(os.getpid()))
    time.sleep(0.05)
    return n * n


@app.activity_trigger(input_name="spec")
def meet(spec: dict) -> bool:
    """Whether as many as `count` are in here at the same time."""
    file = f"met-{spec['key']}"
    note(file, "here")
    deadline = time.monotonic() + 15
    while len((Path(os.environ["JOURNAL"]) / file).read_text().splitlines()) < spec["count"]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@app.activity_trigger(input_name="key")
def fails_twice(key: str) -> str:
    note(f"attempts-{key}", "attempt")
    attempts = len((Path(os.environ["JOURNAL"]) / f"attempts-{key}").read_text().splitlines())
    if attempts < 3:
        raise RuntimeError(f"attempt {attempts}")
    return f"done after {attempts}"


@app.activity_trigger(input_name="text")
def raises(text: str) -> None:
    raise ValueError(f"no good: {text}\nsecond line")


@app.activity_trigger(input_name="spec")
async def slow_step(spec: dict) -> dict:
    """Take so many `seconds`; `again` so many when it runs once more."""
    file = f"slow-{spec['key']}"
    first = not (Path(os.environ["JOURNAL"]) / file).exists()
    note(file, str(os.getpid()))
    await asyncio.sleep(spec["seconds"] if first else spec.get("again", spec["seconds"]))
    return {"pid": os.getpid()}


@app.entity_trigger(context_name="context", entity_name="Counter")
def counter(context: df.DurableEntityContext) -> None:
    value = context.get_state(lambda: 0)
    if context.operation_name == "add":
        value += context.get_input()
    context.set_state(value)
    context.set_result(value)


@app.route(route="stream/ticks")
async def ticks(req: Request) -> StreamingResponse:
    async def body():
        try:
            for number in range(int(req.query_params.get("n", "5"))):
                yield f"data: {number} {time.time()}\n\n"
                await asyncio.sleep(float(req.query_params.get("pause", "0.1")))
        finally:
            # Also when the client is gone: then starlette cancels this.
            note("stream", f"end {req.query_params.get('tag', '')}")

    return StreamingResponse(body(), media_type="text/event-stream")
