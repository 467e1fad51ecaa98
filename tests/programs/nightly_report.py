"""A one-shot with retries: fetches figures from a service that is down now and then, and makes a report of them."""

from datetime import timedelta

from hosting.tasks import RetryPolicy, TaskContext, TaskFailed, task  # was: from azure.ai.agentserver.core.tasks

attempts: dict[str, int] = {}


class ServiceDown(Exception):
    pass


async def fetch(region: str, attempt: int) -> list[int]:
    attempts[region] = attempts.get(region, 0) + 1
    if region == "nowhere" or (region == "north" and attempt < 2):
        raise ServiceDown(f"{region} does not answer")
    if region == "odd":
        raise ValueError("odd is no region")
    return [1, 2, 3]


@task(
    name="nightly-report",
    title="Nightly report",
    timeout=timedelta(minutes=10),
    retry=RetryPolicy(max_attempts=3, max_delay=timedelta(seconds=5), retry_on=ServiceDown, jitter=False),
)
async def nightly_report(ctx: TaskContext[dict]) -> dict:
    figures = await fetch(ctx.input["region"], ctx.retry_attempt)
    return {"region": ctx.input["region"], "sum": sum(figures), "tries": ctx.retry_attempt + 1}


async def main() -> list[dict]:
    reports = [await nightly_report.run(input={"region": region}) for region in ("south", "north")]
    run = await nightly_report.start(task_id="report-nowhere", input={"region": "nowhere"})
    try:
        await run.result()
    except TaskFailed as failed:
        reports.append(failed.error)
    try:
        await (await nightly_report.start(input={"region": "odd"}))
    except TaskFailed as failed:
        reports.append(failed.error)
    return reports
