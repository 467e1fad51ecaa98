"""Every environment variable that the app reads, typed, with its reason. An app setting in Azure is one of these."""

import os
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hosting.errors import ConfigurationError

__all__ = ["ConfigurationError", "Settings", "load_settings"]


class Settings(BaseModel):
    """The settings of one process. What belongs to storage or to a model is read where it is used: `hosting/storage`
    takes the `AzureWebJobsStorage*` group, `hosting/models.py` the `AZURE_OPENAI_*` and `OPENAI_*` ones.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    api_keys: str = Field("", alias="HOSTING_API_KEYS")
    """API keys, hashes only: entries that `python -m hosting.keys new TENANT` prints, separated by commas or space."""

    isolation: Literal["tenant", "user"] = Field("tenant", alias="HOSTING_ISOLATION")
    """Who shares ids: everybody of a tenant, or each user alone. A caller without a user is the tenant itself."""

    max_request_bytes: int = Field(32 * 1024 * 1024, alias="HOSTING_MAX_REQUEST_BYTES", ge=1024, le=200 * 1024 * 1024)
    """Largest request body, in bytes. The Functions host stops at 210 MB; a body stays in memory while its turn runs."""

    keep_alive_seconds: float = Field(15.0, alias="HOSTING_KEEP_ALIVE_SECONDS", gt=0, le=60)
    """Silence on a stream after which a comment is sent, in seconds. Front ends cut idle connections after 60 or more."""

    foreground_seconds: float = Field(3600.0, alias="HOSTING_FOREGROUND_SECONDS", gt=0)
    """Longest foreground run, in seconds. Not every front end reports a client that has gone; a run that nobody waits for
    must end all the same. What takes longer belongs into the background."""

    max_recoveries: int = Field(50, alias="HOSTING_MAX_RECOVERIES", ge=0)
    """How often a background response is run again after its process died without giving the work back. A deployment may
    kill processes so, and each one also takes its innocent neighbours along: so it is not small. Without it, input that kills
    every process that works on it would go round for ever."""

    recovery_overdue_seconds: float = Field(300.0, alias="HOSTING_RECOVERY_OVERDUE_SECONDS", ge=0, le=86_400)
    """How long no recovery scan may have come to its end before a process that serves requests makes one, in seconds; 0: it
    never does. For timers that stop firing. Must be longer than TASKS_RECOVERY_SCHEDULE leaves between two scans."""

    request_body_seconds: float = Field(60.0, alias="HOSTING_REQUEST_BODY_SECONDS", gt=0, le=3600)
    """Longest time for a body to arrive, in seconds: a client that sends a byte now and then must not keep a place for ever.
    The largest body in 60 s is 4.5 Mbit/s."""

    max_input_items: int = Field(2000, alias="HOSTING_MAX_INPUT_ITEMS", ge=1, le=100_000)
    """Most items in the `input` of a request. Clients without server-side state resend whole conversations."""

    max_history_bytes: int = Field(32 * 1024 * 1024, alias="HOSTING_MAX_HISTORY_BYTES", ge=1024)
    """Most that is read of what a turn goes on from, or refers to, in bytes. The same as a client may send that keeps its
    conversation itself."""

    max_working_bytes: int = Field(256 * 1024 * 1024, alias="HOSTING_MAX_WORKING_BYTES", ge=0)
    """Most that requests and runs of one process have in hand, of bodies and of stored data, in bytes as they are on the wire;
    0 for no limit. In memory it is up to four times as much. Raise it with INSTANCE_MEMORY_MB."""

    max_working_bytes_per_tenant: int = Field(128 * 1024 * 1024, alias="HOSTING_MAX_WORKING_BYTES_PER_TENANT", ge=0)
    """The same for one tenant; 0 for no limit."""

    max_runs: int = Field(500, alias="HOSTING_MAX_RUNS", ge=0)
    """Most foreground runs at a time in one process, and most bodies that arrive at a time; 0 for no limit. A last resort:
    in Azure, HTTP_CONCURRENCY in infra/ comes first."""

    max_runs_per_tenant: int = Field(250, alias="HOSTING_MAX_RUNS_PER_TENANT", ge=0)
    """The same for one tenant, so that no tenant takes all; 0 for no limit. Below HTTP_CONCURRENCY it can keep the platform
    from adding instances: docs/limits.md."""

    max_streams: int = Field(1000, alias="HOSTING_MAX_STREAMS", ge=0)
    """Most followers of background responses at a time in one process; 0 for no limit. A follower is cheaper than a run."""

    max_streams_per_tenant: int = Field(500, alias="HOSTING_MAX_STREAMS_PER_TENANT", ge=0)
    """The same for one tenant; 0 for no limit."""

    max_unfinished_runs_per_tenant: int = Field(0, alias="HOSTING_MAX_UNFINISHED_RUNS_PER_TENANT", ge=0, le=10_000)
    """Most background runs that one tenant (one user with HOSTING_ISOLATION=user) may have waiting or running, everywhere;
    0 for no limit. Counting costs 16 reads every 15 s on each instance that accepts such runs, so it is off by default."""

    runs_per_minute: int = Field(0, alias="HOSTING_RUNS_PER_MINUTE", ge=0, le=1_000_000)
    """Requests for a run that one tenant may send a minute, to each process; 0 for no limit."""

    runs_per_minute_shared: bool = Field(False, alias="HOSTING_RUNS_PER_MINUTE_SHARED")
    """Whether HOSTING_RUNS_PER_MINUTE is meant for all processes together. They count in the table then: a write for a run at
    first, one for up to 64 when there are many."""

    suspended_seconds: float = Field(30.0, alias="HOSTING_SUSPENDED_SECONDS", ge=0, le=3600)
    """How old the list of suspended tenants may be that a process goes by, in seconds; 0: it goes by none. A read each time,
    beside the request that finds it older."""

    default_model: str = Field("agent", alias="HOSTING_DEFAULT_MODEL", min_length=1)
    """The `model` that a response names when its request named none."""

    storage_connection: str = Field("AzureWebJobsStorage", alias="HOSTING_STORAGE_CONNECTION", min_length=1)
    """Name (prefix) of the settings that say which storage account holds the state, as bindings name a connection."""

    table: str = Field("agents", alias="HOSTING_TABLE", pattern="^[A-Za-z][A-Za-z0-9]{2,62}$")
    """Table for sessions, turns and responses; made at first use."""

    container: str = Field("agents", alias="HOSTING_CONTAINER", pattern="^[a-z0-9](?:-?[a-z0-9]){2,62}$")
    """Blob container for values that are too large for a table; made at first use."""

    retention_days: float = Field(30.0, alias="HOSTING_RETENTION_DAYS", ge=0, le=36_500)
    """How long a conversation chain is kept after the last write to it: responses, items, sessions, tasks; 0 for ever.
    docs/retention.md."""

    conversation_days: float = Field(30.0, alias="HOSTING_CONVERSATION_DAYS", ge=0, le=36_500)
    """The same for what belongs to a Conversation object; 0 for ever, which is what OpenAI does."""

    retention_shrink_hours: float = Field(72.0, alias="HOSTING_RETENTION_SHRINK_HOURS", ge=0, le=8_760)
    """How long a shorter HOSTING_RETENTION_DAYS or HOSTING_CONVERSATION_DAYS waits before anything is removed by it, in hours;
    0 for at once. It may come of a mistake, a deployment without the setting say, and nothing brings back what it removes."""

    stream_hours: float = Field(24.0, alias="HOSTING_STREAM_HOURS", gt=0, le=8_760)
    """How long the events of a response can be read again after its stream was closed, in hours. With more than 767, raise
    STREAM_DAYS in infra/ with it."""

    stream_flush_seconds: float = Field(0.2, alias="HOSTING_STREAM_FLUSH_SECONDS", ge=0, le=60)
    """Shortest time between two appends to the stream of a background response, in seconds. It decides what a streamed minute
    costs and how late a follower on another instance is: docs/streaming.md has the formula."""

    idempotency_hours: float = Field(24.0, alias="HOSTING_IDEMPOTENCY_HOURS", ge=1, le=8_760)
    """How long an Idempotency-Key is known after its first use, in hours."""

    retention_schedule: str = Field("0 17 * * * *", alias="HOSTING_RETENTION_SCHEDULE", min_length=1)
    """When the timer of retention goes on with its pass, in NCRONTAB. A pass begins every six hours at most."""

    retention_seconds: float = Field(240.0, alias="HOSTING_RETENTION_SECONDS", gt=0, le=3_600)
    """Longest time that one tick of it works, in seconds. A pass takes as many ticks as it needs."""

    easy_auth: bool = Field(False, alias="WEBSITE_AUTH_ENABLED")
    """Set by the platform when Easy Auth is on. Only then are the identity headers the platform's own."""

    environment: str = Field("Production", alias="AZURE_FUNCTIONS_ENVIRONMENT")
    """`Development` under Core Tools and devhost. Without keys, only then is a caller let in without one."""

    instance_id: str = Field("", alias="WEBSITE_INSTANCE_ID")
    """Set by the platform in Azure, never on a laptop."""

    sku: str = Field("", alias="WEBSITE_SKU")
    """The plan, set by the platform in Azure (`FlexConsumption`), never on a laptop."""

    @property
    def development(self) -> bool:
        """Whether this is a laptop: the environment says so and no sign of Azure contradicts it (fails closed)."""
        return self.environment.lower() == "development" and not (self.instance_id or self.sku)


def load_settings(env: Mapping[str, str] | None = None) -> Settings:
    """The settings of the environment, or of `env` alone. Raises ConfigurationError that names each wrong one, on one line,
    and repeats no value: somebody may have put a secret into the wrong setting."""
    values = os.environ if env is None else env
    try:
        # An empty app setting means "not set": the portal can't delete one that a template declares.
        return Settings.model_validate({name: value for name, value in values.items() if value != ""})
    except ValidationError as error:
        wrong = "; ".join(f"{fault['loc'][0]}: {fault['msg']}" for fault in error.errors(include_input=False))
    # Outside of the except block: pydantic's error holds the values, and whatever logs ours could follow it there.
    raise ConfigurationError(f'{wrong}. See docs/deploy.md, "App settings".')
