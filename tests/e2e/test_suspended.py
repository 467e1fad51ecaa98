"""A tenant is suspended by the operator's command, beside an app that runs, and let in again."""

import os
import subprocess
import sys
import time

import openai
import pytest

from devhost.azurite import Azurite
from devhost.testing import start_devhost
from tests.conftest import ROOT
from tests.contract.storage_twins import fresh


def test_a_suspended_tenant_is_kept_out_until_it_is_resumed(azurite: Azurite) -> None:
    names = fresh("suspend")
    env = {"HOSTING_TABLE": names, "HOSTING_CONTAINER": names, "HOSTING_SUSPENDED_SECONDS": "0.2"}

    def operator(command: str) -> None:
        words = [sys.executable, "-m", "hosting.admin", command, "--tenant", "development"]
        storage = {"AzureWebJobsStorage": azurite.connection_string}
        subprocess.run(words, cwd=ROOT, env={**os.environ, **env, **storage}, check=True, timeout=60)

    with (
        start_devhost(ROOT, env=env, storage=azurite.connection_string) as host,
        openai.OpenAI(base_url=f"{host.base_url}/v1", api_key="any", max_retries=0, timeout=60) as client,
    ):
        made = client.responses.create(model="agent", input="before")
        operator("suspend")
        client.models.list()  # by this one the process hears of it
        time.sleep(1)
        with pytest.raises(openai.PermissionDeniedError) as refused:
            client.responses.retrieve(made.id)
        assert refused.value.code == "account_deactivated"
        operator("resume")
        time.sleep(1)
        with pytest.raises(openai.PermissionDeniedError):
            client.models.list()
        time.sleep(1)
        assert client.responses.retrieve(made.id).id == made.id
