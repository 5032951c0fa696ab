"""The pipelines of prove.py. ZenML finds steps by their source, so they stand in a module of their own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Dict

from zenml import pipeline, step
from zenml.config import ResourceSettings
from zenml.config.retry_config import StepRetryConfig

MARKS = Path(os.environ["PROVE_MARKS"])
WAIT_SECONDS_MAX = 90.0


def asking(gpu: int, preemptible: bool = True) -> Dict[str, Any]:
    return {"resources": ResourceSettings(gpu_count=gpu, preemptible=preemptible)}


def wait_for_mark(name: str) -> None:
    end = time.monotonic() + WAIT_SECONDS_MAX
    while not (MARKS / name).exists():
        if time.monotonic() > end:
            raise RuntimeError(f"Waited in vain for {name}.")
        time.sleep(0.1)


def work_until_stopped() -> None:
    """The first attempt works until it may go; a retry ends at once."""
    if (MARKS / "started").exists():
        return
    (MARKS / "started").touch()
    wait_for_mark("go")


@step(enable_cache=False, settings=asking(2))
def train() -> None:
    return None


@step(enable_cache=False, settings=asking(1, preemptible=False))
def evaluate() -> None:
    return None


@step(enable_cache=False, settings=asking(2, preemptible=False))
def too_much() -> None:
    return None


@step(enable_cache=False, settings=asking(1))
def crash() -> None:
    raise RuntimeError("the step crashed")


@step(enable_cache=False, settings=asking(2))
def long_step() -> None:
    work_until_stopped()


@step(enable_cache=False, settings=asking(2), retry=StepRetryConfig(max_retries=1))
def retried_step() -> None:
    work_until_stopped()


@step(enable_cache=False, settings=asking(1))
def outage_step() -> None:
    (MARKS / "outage").touch()
    wait_for_mark("gone")


@pipeline(dynamic=True, enable_cache=False)
def granted() -> None:
    train()
    evaluate()


@pipeline(dynamic=True, enable_cache=False)
def rejected() -> None:
    too_much()


@pipeline(dynamic=True, enable_cache=False)
def crashed() -> None:
    crash()


@pipeline(dynamic=True, enable_cache=False)
def queued() -> None:
    train()


@pipeline(dynamic=True, enable_cache=False)
def preempted() -> None:
    long_step()


@pipeline(dynamic=True, enable_cache=False)
def retried() -> None:
    retried_step()


@pipeline(dynamic=True, enable_cache=False)
def outage() -> None:
    outage_step()


@pipeline(enable_cache=False)
def static() -> None:
    evaluate()
