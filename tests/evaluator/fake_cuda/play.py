"""Plays one scene with candidates' processes on the fake GPU and prints what happened as JSON. Run by test_cuda_side.py."""

import json
import sys
import tempfile
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path

import numpy as np

from evaluator.backend import Build, Program
from evaluator.cuda import side as side_module
from evaluator.cuda.allocations import Pool
from evaluator.cuda.candidates import CandidateProcesses
from evaluator.outcome import Fault
from evaluator.plan.resolved import Buffer
from tests.contracts import vector_scale

COUNTER = Buffer(name="counter", role="workspace", dtype="int32", shape=(4,), init="zero", self_resetting=True)


class Stage:
    """A set of processes, and programs for them."""

    def __init__(self, folder, sick=None):
        self.folder, self.asked = folder, []
        self.pool = Pool(0)
        self.processes = CandidateProcesses(0, self.pool, lambda: self.asked.append(1) or sick)

    def program(self, *kernels, candidate="c", n=1000, shared=0, workspaces=()):
        path = Path(self.folder) / "-".join(kernels)
        path.write_text(json.dumps({kernel: kernel for kernel in kernels}))
        plan = vector_scale.with_kernels(replace(vector_scale.resolved(n), workspaces=workspaces), *kernels)
        launches = tuple(replace(launch, shared_bytes=shared) for launch in plan.launches)
        return Program(
            candidate_id=candidate,
            scenario=vector_scale.scenario(n),
            build=Build(key=candidate, path=path),
            resolved=replace(plan, launches=launches),
        )

    def start(self, *kernels, slots=2, **settings):
        return self.processes.start(self.program(*kernels, **settings), slots)


def plain(value):
    return asdict(value) if is_dataclass(value) else value


def run_one(stage, kernels, n=1000, deadline_s=20.0, **settings):
    """Fill, run and audit both slots of a side."""
    side = stage.start(*kernels, n=n, **settings)
    if isinstance(side, Fault):
        return {"started": plain(side), "probes": len(stage.asked)}
    given = [vector_scale.inputs(n, seed) for seed in range(2)]
    for slot in (0, 1):
        side.fill(slot, given[slot], slot)
    ran = side.run([1, 0], deadline_s)
    right = all(np.array_equal(side.read(slot)["y"], vector_scale.expected(given[slot])) for slot in (0, 1))
    found = {"ran": plain(ran), "right": right, "audit": plain(side.audit()), "facts": side.facts}
    side.close()
    side.close()
    return found | {"probes": len(stage.asked)}


def reuse(stage):
    """The pids of sides one after the other, then of two at once."""
    pids = []
    for candidate, n in (("a", 1000), ("a", 500), ("b", 1000)):
        side = stage.start("scale", candidate=candidate, n=n)
        side.fill(0, vector_scale.inputs(n), 0)
        assert not isinstance(side.run([0], 20.0), Fault)
        pids.append(side.pid)
        side.close()
    first, second = stage.start("scale", candidate="b"), stage.start("scale", candidate="c")
    pids += [first.pid, second.pid]
    first.close()
    second.close()
    return {"pids": pids}


def killed(stage):
    """A process killed from outside, then the zygote."""
    import os
    import signal

    side = stage.start("scale")
    os.kill(side.pid, signal.SIGKILL)
    fault = side.run([0], 20.0)
    side.close()
    os.kill(stage.processes._zygote._process.pid, signal.SIGKILL)
    after = run_one(stage, ["scale"])
    return {"fault": plain(fault), "after": after}


def whereabouts(stage):
    """How far output and input of each slot lie apart, in granules, in three processes."""
    distances = []
    for candidate in ("a", "b", "c"):
        side = stage.start("whereabouts", candidate=candidate)
        for slot in (0, 1):
            side.fill(slot, vector_scale.inputs(), 0)
        assert not isinstance(side.run([0, 1], 20.0), Fault)
        distances += [float(side.read(slot)["y"][0]) for slot in (0, 1)]
        side.close()
    return {"distances": distances}


def leftovers(stage):
    """What an allocation that is handed out again still holds of the side before: nothing."""
    side = stage.start("scale", candidate="a")
    for slot in (0, 1):
        side.fill(slot, vector_scale.inputs(), 1)
    side.close()
    side = stage.start("scale", candidate="b")
    return {"zero": all(not side.read(slot)["y"].any() for slot in (0, 1))}


def main():
    request = json.loads(sys.argv[1])
    side_module.constant_names = lambda cubin: ()
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder, request.pop("sick", None))
        scene = request.pop("scene", "run")
        if request.pop("counter", False):
            request["workspaces"] = (COUNTER,)
        scenes = {"run": run_one, "reuse": reuse, "killed": killed, "leftovers": leftovers, "whereabouts": whereabouts}
        found = scenes[scene](stage, **request)
        if request.pop("then", None):
            found["then"] = run_one(stage, ["scale"])
        stage.processes.close()
        stage.pool.close()
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main()
