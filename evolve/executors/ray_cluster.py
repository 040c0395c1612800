"""Ray as a program to start, to join and to look at: a small one of this machine, or a cluster by its address."""

import logging
import os
import socket
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import ray

from evolve.errors import EnvironmentUnfit

PACKAGES = ("evolve", "population", "mutators", "evaluator", "results")
"""What every worker imports. Ray ships the driver's own, so that all machines of a cluster measure with the same harness."""

_OBJECT_STORE_BYTES = 80 * 2**20  # requests and outcomes are kilobytes; Ray's own minimum is 75 MiB
_KNOCK_S = 10.0
_ADVICE_HERE = (
    "Ray keeps its files in RAY_TMPDIR, TMPDIR or /tmp: a short path with free space, please; "
    '[executor] kind = "inline" does without Ray'
)
_ADVICE_THERE = "Start it there with `ray start --head`, or leave [executor] ray_address out for a Ray of this machine alone"
_SERVERS = ("raylet", "gcs_server")


def start_ray(cpus: int, address: str | None) -> Sequence[psutil.Process]:
    """Join the cluster at ``address``, or start a small quiet Ray of ``cpus`` CPUs here that reports to nobody.

    Returns the servers without which a Ray that was started here doesn't work. Raises EnvironmentUnfit where neither is possible.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # results that nobody waits for any more
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    try:
        if address is not None:
            _knock(address)
            ray.init(address=address, runtime_env={"py_modules": _folders(), "excludes": ["__pycache__"]}, **quiet)
        else:  # "local" by name, or Ray would join whatever RAY_ADDRESS names
            ray.init("local", num_cpus=cpus, include_dashboard=False, object_store_memory=_OBJECT_STORE_BYTES, **quiet)
    except Exception as error:
        ray.shutdown()
        what = "started here" if address is None else f"reached at {address}"
        advice = _ADVICE_HERE if address is None else _ADVICE_THERE
        raise EnvironmentUnfit(f"Ray can't be {what} ({type(error).__name__}: {error}). {advice}") from error
    return [child for child in psutil.Process().children() if child.name() in _SERVERS] if address is None else ()


def dead_nodes() -> frozenset[str]:
    """Ids of the machines that the cluster has lost."""
    return frozenset(node["NodeID"] for node in ray.nodes() if not node["Alive"])


def has_several_nodes() -> bool:
    """Whether the cluster has, or had, more machines than one."""
    return len(ray.nodes()) > 1


def _folders() -> list[str]:
    return [str(Path(found.origin).parent) for name in PACKAGES if (found := find_spec(name)) is not None and found.origin]


def _knock(address: str) -> None:
    """Raise OSError where nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()
