"""infra/deployed-values.sh prints what a new machine needs to know of a deployment. What Azure records, only Azure shows."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from .bicep import ROOT

# What Azure has of a deployment: azd gives all values as strings, or as the template has them; secure ones are left out.
RECORD = {
    "environmentName": {"type": "String", "value": "prod"},
    "location": {"type": "String", "value": "westeurope"},
    "principalId": {"type": "String", "value": "somebody"},
    "apiKeys": {"type": "SecureString"},
    "vnetEnabled": {"type": "Bool", "value": True},
    "separateHostAccount": {"type": "Bool", "value": False},
    "retentionDays": {"type": "Int", "value": 90},
    "streamHours": {"type": "Int", "value": "24"},
    "extraSettings": {"type": "String", "value": 'A=$ONE,B="two words"'},
    "goneSince": {"type": "String", "value": "x"},
}


@pytest.fixture
def az(tmp_path: Path) -> Path:
    """A stand-in: the record for `show`, and for `list` whatever stands in the file `listed`."""
    (tmp_path / "record").write_text(json.dumps(RECORD))
    (tmp_path / "listed").write_text("prod-1764600000\n")
    path = tmp_path / "az"
    path.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n[ "$3" = list ] && exec cat {tmp_path}/listed\ncat {tmp_path}/record\n'
    )
    path.chmod(0o755)
    return tmp_path


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "infra" / "deployed-values.sh"), *arguments],
        cwd=directory,
        env={"PATH": f"{directory}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_it_prints_what_is_no_default_under_the_names_of_azds_environment(az: Path) -> None:
    done = run(az, "prod")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "HOSTING_RETENTION_DAYS='90'",
        "EXTRA_SETTINGS='A=$ONE,B=\"two words\"'",
        "VNET_ENABLED='true'",
    ]


def test_a_value_with_a_single_quotation_mark_stays_what_it_is(az: Path) -> None:
    record = RECORD | {"extraSettings": {"type": "String", "value": "A=it's $ONE"}}
    (az / "record").write_text(json.dumps(record))
    assert 'EXTRA_SETTINGS="A=it\'s \\$ONE"' in run(az, "prod").stdout.splitlines()


def test_it_asks_for_the_last_deployment_of_that_environment(az: Path) -> None:
    run(az, "prod")
    listed, shown = (az / "asked").read_text().splitlines()
    assert "azd-env-name" in listed
    assert "'prod'" in listed
    assert "-n prod-1764600000" in shown


def test_it_says_so_when_there_is_no_deployment(az: Path) -> None:
    (az / "listed").write_text("")
    done = run(az, "mistyped")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no deployment of mistyped" in done.stderr
