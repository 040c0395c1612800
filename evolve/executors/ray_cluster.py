"""Ray as a program to start, to join and to look at: a small one of this machine, or a cluster by its address."""

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from evolve.errors import EnvironmentUnfit
from evolve.finding import Finding, State

PACKAGES = ("evolve", "population", "mutators", "evaluator", "results")
"""What every worker imports. Ray ships the driver's own, so that all machines of a cluster measure with the same harness."""

_OBJECT_STORE_BYTES = 80 * 2**20  # requests and outcomes are kilobytes; Ray's own minimum is 75 MiB
_KNOCK_S = 10.0
_LOOK_S = 120.0  # a machine that is seen for the first time fetches the packages
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


def survey(address: str) -> Iterator[Finding]:
    """What each machine of a cluster is and whether it has what evaluations import; joins and leaves it."""
    try:
        start_ray(0, address)
    except EnvironmentUnfit as unfit:
        yield Finding(name="ray cluster", state=State.MISSING, detail=str(unfit))
        return
    try:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        with_gpus = [node for node in nodes if node["Resources"].get("GPU")]
        total = {kind: int(sum(node["Resources"].get(kind, 0) for node in nodes)) for kind in ("CPU", "GPU")}
        yield Finding(
            name="ray cluster",
            state=State.OK if total["CPU"] else State.MISSING,
            detail=f"{len(nodes)} machines, {total['CPU']} CPUs, {total['GPU']} GPUs on {len(with_gpus)} of them",
            next_step="" if total["CPU"] else "run `ray start --address=HEAD:6379` on the machines that shall evaluate",
        )
        placed = [(node, _look_at(node["NodeID"])) for node in nodes if node["Resources"].get("CPU")]
        for node, looking in placed:
            yield _about(node, looking)
    finally:
        ray.shutdown()


def _look_at(node_id: str) -> Any:
    """A task on one machine that imports what an evaluation does and gives the versions."""
    there = NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
    return ray.remote(num_cpus=1, max_retries=0, scheduling_strategy=there)(_versions).remote()


def _versions() -> str:
    """Versions of what decides about an evaluation, for a person to compare between machines."""
    import evaluator.harness  # noqa: F401  (fails where a machine lacks what evaluations import)

    return ", ".join(f"{name} {version(name)}" for name in ("torch", "numpy"))


def _about(node: dict[str, Any], looking: Any) -> Finding:
    name = f"machine {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
    kinds = [kind.removeprefix("accelerator_type:") for kind in node["Resources"] if kind.startswith("accelerator_type:")]
    gpus = f"{int(node['Resources'].get('GPU', 0))} GPUs" + "".join(f" ({kind})" for kind in kinds)
    try:
        return Finding(name=name, state=State.OK, detail=f"{gpus}, {ray.get(looking, timeout=_LOOK_S)}")
    except RayError as error:
        return Finding(
            name=name,
            state=State.LIMITED,
            detail=str(error).strip().splitlines()[-1],
            next_step="install the same packages as here (`pip install askevolve`, with [cuda] where it has a GPU)",
        )


def _folders() -> list[str]:
    return [str(Path(found.origin).parent) for name in PACKAGES if (found := find_spec(name)) is not None and found.origin]


def _knock(address: str) -> None:
    """Raise OSError where nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()
