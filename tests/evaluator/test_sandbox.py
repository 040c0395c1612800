"""The compile sandbox: what a child can read, write and use, and how it ends."""

import os
import shutil
import socket
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest

from evaluator import sandbox
from evaluator.sandbox import (
    OUTPUT_CAP_BYTES,
    Finished,
    Limits,
    SandboxError,
    landlock_abi,
    limits_missing,
    run_sandboxed,
    toolchain_paths,
)

SECRET = "hunter2_is_the_password"
LIMITS = Limits(cpu_s=20, wall_s=60.0, memory_bytes=1 << 30, file_bytes=8 << 20)
PYTHON = sys._base_executable  # type: ignore[attr-defined]
PYTHON_FILES = (Path(sys.base_prefix), *toolchain_paths())
needs_landlock = pytest.mark.skipif(landlock_abi() == 0, reason="this kernel has no Landlock")


def run_python(code: str, folder: Path, limits: Limits = LIMITS, **more: object) -> Finished:
    return run_sandboxed(
        [PYTHON, "-I", "-S", "-c", code],
        readable=PYTHON_FILES,
        writable=folder,
        limits=limits,
        **more,  # type: ignore[arg-type]
    )


def run_gxx(source: str, folder: Path, limits: Limits = LIMITS) -> Finished:
    (folder / "source.cpp").write_text(source)
    gxx = shutil.which("g++", path="/usr/bin")
    if gxx is None:
        pytest.skip("no g++ here")
    argv = [gxx, "-O1", "-fPIC", "-shared", "source.cpp", "-o", "out.so"]
    return run_sandboxed(argv, readable=toolchain_paths(), writable=folder, limits=limits)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.h"
    path.write_text(f"{SECRET}\n")
    return path


def test_gxx_builds_with_system_headers(work: Path) -> None:
    done = run_gxx('#include <cmath>\nextern "C" float f(float x) { return std::exp(x); }\n', work)
    assert (done.returncode, done.stderr, done.limit_hit) == (0, b"", None)
    assert (work / "out.so").read_bytes()[:4] == b"\x7fELF"


@needs_landlock
@pytest.mark.parametrize(
    "source",
    [
        '#include "{path}"',
        'asm(".incbin \\"{path}\\"");',
        '#include "/etc/passwd"',
        '#include "/proc/self/environ"',
        '#include "/etc/shadow"',
    ],
)
def test_a_source_reads_no_foreign_file(source: str, work: Path, secret: Path) -> None:
    done = run_gxx(source.replace("{path}", str(secret)), work)
    assert done.returncode != 0
    assert not (work / "out.so").exists()
    assert SECRET not in done.stderr.decode()
    assert "root:" not in done.stderr.decode()


@needs_landlock
def test_only_the_work_folder_is_writable(work: Path, secret: Path) -> None:
    code = f"""
open("mine", "w").write("yes")
for action in (lambda: open({str(secret)!r}), lambda: open({str(secret.parent / "new")!r}, "w"), lambda: open({PYTHON!r}, "r+b")):
    try:
        action()
        print("allowed")
    except OSError:
        print("denied")
"""
    done = run_python(code, work)
    assert done.stdout.split() == [b"denied"] * 3
    assert (work / "mine").read_text() == "yes"


def test_environment_and_descriptors_are_not_inherited(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)
    leaked = os.open("/etc/hosts", os.O_RDONLY)
    os.set_inheritable(leaked, True)
    code = "import os; print(sorted(os.environ)); print([n for n in range(3, 64) if os.path.exists(f'/proc/self/fd/{n}')])"
    try:
        done = run_sandboxed([PYTHON, "-I", "-S", "-c", code], readable=[Path("/")], writable=work, limits=LIMITS)
    finally:
        os.close(leaked)
    environment, descriptors = done.stdout.decode().splitlines()
    assert set(eval(environment)) <= {"PATH", "LC_ALL", "LC_CTYPE", "TMPDIR"}
    assert len(eval(descriptors)) <= 1  # the listing itself


def test_a_kept_descriptor_stays(work: Path) -> None:
    read, write = os.pipe()
    try:
        done = run_python(f"import os; os.write({write}, b'hello')", work, keep_fds=(write,))
        assert done.returncode == 0, done.stderr
        assert os.read(read, 10) == b"hello"
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.skipif(landlock_abi() < 4, reason="needs Landlock ABI 4")
def test_no_tcp(work: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = run_python(f"import socket; socket.create_connection(('127.0.0.1', {port}))", work)
    assert b"PermissionError" in done.stderr


def test_stdin_arrives_whole(work: Path) -> None:
    data = os.urandom(3 << 20)
    done = run_python("import sys, zlib; print(zlib.crc32(sys.stdin.buffer.read()))", work, stdin=data)
    assert int(done.stdout) == zlib.crc32(data)


def test_the_whole_group_dies_at_the_deadline(work: Path) -> None:
    code = "import os, time\nif os.fork() == 0:\n    print(os.getpid(), flush=True)\ntime.sleep(60)"
    done = run_python(code, work, Limits(cpu_s=20, wall_s=3.0, memory_bytes=1 << 30, file_bytes=1 << 20))
    assert (done.returncode, done.limit_hit) == (-9, "wall")
    assert gone(int(done.stdout))


def test_nothing_outlives_the_leader(work: Path) -> None:
    done = run_python("import os, time\npid = os.fork()\nif pid: print(pid)\nelse: time.sleep(60)", work)
    assert (done.returncode, done.limit_hit) == (0, None)
    assert gone(int(done.stdout))


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            if " Z " in Path(f"/proc/{pid}/stat").read_text().replace(")", " ").replace("  ", " "):
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("code", "limits", "hit"),
    [
        ("while True: pass", Limits(cpu_s=1, wall_s=60.0, memory_bytes=1 << 30, file_bytes=1 << 20), "cpu"),
        ("b'x' * (1 << 30)", Limits(cpu_s=9, wall_s=60.0, memory_bytes=1 << 28, file_bytes=1 << 20), "memory"),
        (
            "open('big', 'wb').write(b'x' * (1 << 21))",
            Limits(cpu_s=9, wall_s=60.0, memory_bytes=1 << 30, file_bytes=1 << 20),
            "file",
        ),
    ],
)
def test_limits_are_named(code: str, limits: Limits, hit: str, work: Path) -> None:
    done = run_python(code, work, limits)
    assert done.returncode != 0
    assert done.limit_hit == hit


def test_gxx_template_bomb_is_a_limit(work: Path) -> None:
    bomb = """template<int Depth, long Path> struct Tree : Tree<Depth - 1, 2 * Path>, Tree<Depth - 1, 2 * Path + 1> {};
template<long Path> struct Tree<0, Path> {};
int size = sizeof(Tree<30, 0>);"""
    done = run_gxx(bomb, work, Limits(cpu_s=1, wall_s=60.0, memory_bytes=1 << 30, file_bytes=1 << 20))
    assert (done.returncode != 0, done.limit_hit) == (True, "cpu")


def test_output_is_capped(work: Path) -> None:
    done = run_python("import sys; sys.stdout.write('x' * (5 << 20))", work)
    assert len(done.stdout) == OUTPUT_CAP_BYTES
    assert done.returncode == 0


def test_a_program_that_does_not_exist_is_our_fault(work: Path) -> None:
    with pytest.raises(SandboxError, match="/no/such/compiler"):
        run_sandboxed(["/no/such/compiler"], readable=(), writable=work, limits=LIMITS)


def test_runs_from_several_threads(work: Path) -> None:
    results: list[Finished] = []
    threads = [threading.Thread(target=lambda: results.append(run_python("print(1)", work))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [done.stdout for done in results] == [b"1\n"] * 4


def test_limits_missing_speaks_only_of_what_is_missing() -> None:
    text = "\n".join(limits_missing())
    assert ("file access" in text) == (landlock_abi() == 0)
    assert ("root" in text) == (os.geteuid() == 0)


@needs_landlock
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs a Python that an ordinary user may run")
def test_works_for_an_ordinary_user(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "ENTRY", Path(shutil.copy(sandbox.ENTRY, work)))
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    for folder in (work, *list(work.parents)[:3]):
        folder.chmod(0o777)
    argv = ["/bin/sh", "-c", "echo done > here; cat /etc/passwd"]
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            done = run_sandboxed(argv, readable=toolchain_paths(), writable=work, limits=LIMITS)
            code = 0 if done.returncode != 0 and not done.stdout and (work / "here").exists() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
