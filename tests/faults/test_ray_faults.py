"""A Ray that is there already, elsewhere, too small, wanted by two runs at once, or can't be started."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evolve import api
from evolve.config import ConfigError
from evolve.executors.ray_executor import RayExecutor
from tests.contracts.executor import Scripted, collect_all, request_of
from tests.evolve.simulation import config, essence, shuffled, stored
from tests.faults.mounts import needs_mounts
from tests.faults.test_killed_ray_run import wait_for
from tests.faults.test_run_folder import ROOT
from tests.faults.timed import timed_config

RAY = {"executor": {"kind": "ray"}}


def in_new_process(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, in which no Ray has been started yet."""
    program = "from evolve.cli.app import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.parametrize(
    ("name", "value", "says"), [("RAY_TMPDIR", "/proc/nowhere", "No such file"), ("RAY_TMPDIR", "/tmp/" + "l" * 100, "107 bytes")]
)
def test_a_ray_that_can_not_be_started_gives_4_and_advice_and_no_run(ask, tmp_path: Path, name, value, says) -> None:
    ran = in_new_process(tmp_path, "run", "sim.toml", "-q", "--set", "executor.kind=ray", **{name: value})
    assert (ran.returncode, ran.stdout) == (4, "")
    assert says in ran.stderr
    assert 'kind = "inline" does without Ray' in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "runs" / "sim" / "run.db").exists()


def test_a_cluster_that_nobody_answers_for_gives_4_at_once(ask, tmp_path: Path) -> None:
    ran = in_new_process(tmp_path, "run", "sim.toml", "-q", "--ray-address", "127.0.0.1:1")
    assert (ran.returncode, ran.stdout) == (4, "")
    assert "can't be reached at 127.0.0.1:1" in ran.stderr
    assert "ray start --head" in ran.stderr


@pytest.mark.slow
def test_a_ray_address_in_the_environment_does_not_matter_to_a_local_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "nonsense:1")
    with closing(RayExecutor(Scripted(tmp_path), workers=1)) as executor:
        executor.submit(0, request_of("good"))
        assert len(collect_all(executor, 1)) == 1


@pytest.mark.slow
def test_a_ray_that_the_program_started_is_used_and_left_running(tmp_path: Path) -> None:
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        result = api.run(config(**RAY), root=tmp_path)
        assert result.candidates == 24
        assert ray.is_initialized()
        wait_for(lambda: ray.available_resources().get("CPU") == 2)
        with pytest.raises(ConfigError, match="lower workers"):
            api.run(config(run={"name": "wide"}, executor={"kind": "ray", "workers": 3}), root=tmp_path)
        assert not (tmp_path / "wide" / "run.db").exists()
    finally:
        ray.shutdown()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a Ray of two CPUs that another command started, with its files in a place that no other Ray looks at."""
    place = tempfile.mkdtemp(prefix="ray-")  # a short path
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_TMPDIR": place, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    binary = str(Path(sys.executable).with_name("ray"))
    options = ("--head", "--port=6399", "--num-cpus=2", "--include-dashboard=false", "--block")
    process = subprocess.Popen([binary, "start", *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    while b"Ray runtime started" not in (line := process.stdout.readline()):
        assert line, "ray start failed"
    yield "127.0.0.1:6399"
    process.terminate()
    process.communicate(timeout=60)
    shutil.rmtree(place)


@pytest.mark.slow
def test_two_runs_on_one_cluster_by_its_address(tmp_path: Path, cluster: str) -> None:
    programs = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        overrides = {"executor": {"kind": "ray", "workers": 2, "ray_address": cluster}, "run": {"name": name}}
        chosen = config(**overrides).mapping()
        code = (
            "import json, sys; from pathlib import Path; from evolve import api; from evolve.config import RunConfig; "
            "print(api.run(RunConfig.model_validate(json.loads(sys.argv[1])), root=Path(sys.argv[2])).candidates)"
        )
        command = [sys.executable, "-c", code, json.dumps(chosen), str(folder)]
        programs.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
    assert [program.communicate(timeout=110)[0].strip() for program in programs] == ["24", "24"]
    reference = api.run(config(), root=tmp_path / "reference", executor=shuffled())
    for name in ("first", "second"):
        found, expected = essence(stored(tmp_path / name / name)), essence(stored(reference.folder))
        assert found[0][1:] == expected[0][1:]
        assert found[1] == expected[1]


@pytest.mark.slow
def test_two_timed_runs_on_one_machine_take_turns_and_both_finish(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path), "RAY_TMPDIR": "/tmp"}
    programs = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-m", "tests.faults.timed", str(tmp_path / name), "ray", "5"]
        programs.append(subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True))
    assert [program.communicate(timeout=110)[0].split()[-1] for program in programs] == ["candidates", "candidates"]
    leftovers = [path.name for path in tmp_path.glob("askevolve-*") if path.suffix not in (".lock", ".turnstile")]
    assert not leftovers


@needs_mounts
@pytest.mark.slow
def test_a_shared_memory_that_is_nearly_full(tmp_path: Path) -> None:
    timed_config(tmp_path)
    script = 'mount -t tmpfs -o size=8m tmpfs /dev/shm && dd if=/dev/zero of=/dev/shm/x bs=1M count=9 2>/dev/null; exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-m", "tests.faults.timed", str(tmp_path), "ray", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert done.stdout.split()[-1:] == ["candidates"], done.stderr
