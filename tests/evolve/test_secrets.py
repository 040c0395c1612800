"""Nothing of the environment or of private files reaches a candidate, a compiler, a prompt or the run's store."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluator.cache import BuildCache
from evaluator.cpu import build as cpu_build
from evaluator.cpu import gate as cpu_gate
from evaluator.cpu import side as cpu_side
from evaluator.cuda import nvrtc, processes, sass
from evaluator.cuda.offline import examine
from evaluator.outcome import Fault
from evaluator.sandbox import Finished, landlock_abi
from evolve.api import run
from mutators.answerers.knobs import KnobAnswerer
from mutators.prompt import Prompt
from mutators.question import Answer
from results.codec import encode
from tests.cheats.cuda_cases import GOOD, SET, light_task
from tests.evaluator.cuda_cases import launch, plan
from tests.evolve.simulation import stored
from tests.faults.timed import KERNEL, timed_config

SECRET = "sk-4f9a2c-do-not-leak"
pytestmark = pytest.mark.skipif(landlock_abi() == 0, reason="this kernel has no Landlock, so foreign files can be included")


@pytest.fixture(autouse=True)
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The secret in variables, in a file of the home folder, beside the run and in the temporary folder."""
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "ASKEVOLVE_SECRET", "CPATH", "CUDA_SECRET", "NVCC_APPEND_FLAGS"):
        monkeypatch.setenv(name, SECRET)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("evaluator.harness.lock_path", lambda: tmp_path / "host.lock")
    path = home / ".netrc"
    path.write_text(f'static const char* secret = "{SECRET}"; {SECRET}\n')
    (tmp_path / "secret.h").write_text(path.read_text())
    return path


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Everything that goes into a sandboxed compiler and comes out of it, and what a candidate's process is given."""
    found: list[str] = []

    def watch(module: Any) -> None:
        run_sandboxed = module.run_sandboxed

        def watched(argv: Sequence[str], **terms: Any) -> Finished:
            files = [path.read_bytes() for path in Path(terms["writable"]).iterdir()]
            done: Finished = run_sandboxed(argv, **terms)
            after = [path.read_bytes() for path in Path(terms["writable"]).iterdir() if path.is_file()]
            parts = [terms.get("stdin", b""), done.stdout, done.stderr, *files, *after]
            found.append(" ".join(argv) + "".join(part.decode("utf-8", "replace") for part in parts))
            return done

        monkeypatch.setattr(module, "run_sandboxed", watched)

    for module in (cpu_build, cpu_gate, nvrtc, sass):
        watch(module)
    spawn = cpu_side.spawn

    def spawned(argv_of: Any, *, environment: Mapping[str, str], **terms: Any) -> Any:
        found.append(f"{argv_of(0, 0)} {dict(environment)}")
        return spawn(argv_of, environment=environment, **terms)

    monkeypatch.setattr(cpu_side, "spawn", spawned)
    return found


def traps(secret: Path) -> list[str]:
    """Lines with which a candidate asks for the secret."""
    return [
        f'#include "{secret}"',
        '#include "../secret.h"',
        '#include "/proc/self/environ"',
        '#include "/proc/1/environ"',
        f'asm(".incbin \\"{secret}\\"");',
        f'asm(".include \\"{secret}\\"");',
        f'#line 1 "{secret}"\nint x = nonsense;',
        f'const char* text =\n#embed "{secret}"\n;',
        '#include OPENAI_API_KEY',
        'extern char** environ; const char* first() { return environ[0]; }',
    ]  # fmt: skip


def test_a_run_with_real_compiles_leaks_nothing(
    tmp_path: Path, secrets: Path, seen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts: list[str] = []
    answer = KnobAnswerer.answer

    def heard(self: KnobAnswerer, prompt: Prompt, rng: np.random.Generator) -> Answer | None:
        prompts.append(repr(prompt) + json.dumps(prompt.text))
        found = answer(self, prompt, rng)
        if found is None:
            return None
        line = traps(secrets)[prompt.step_number % len(traps(secrets))]
        source = KERNEL.replace("*/", f"*/\n{line}", 1).replace("value = 16", f"value = {(4, 8, 16, 32)[prompt.step_number % 4]}")
        return Answer(text=f'+++\nhypothesis = "h"\n+++\n```cpp\n{source}```\n', answerer=found.answerer)

    monkeypatch.setattr(KnobAnswerer, "answer", heard)
    result = run(
        timed_config(tmp_path, executor={"kind": "inline", "lookahead": 1}, budget={"candidates": 12}), root=tmp_path / "runs"
    )
    events = stored(result.folder)
    refused = [event for event in events if "COMPILE_ERROR" in encode(event)]
    assert len(prompts) >= 10
    assert len(refused) >= 6
    assert len(seen) > 12
    for text in (*prompts, *seen, *map(encode, events)):
        assert SECRET not in text
    for path in (path for path in result.folder.rglob("*") if path.is_file()):
        assert SECRET.encode() not in path.read_bytes()


def test_no_cuda_compile_leaks(tmp_path: Path, secrets: Path, seen: list[str]) -> None:
    cache = BuildCache(tmp_path / "builds")
    assert not isinstance(examine(GOOD.read_text(), light_task(), SET, "sm_90a", cache), Fault)
    kernel = 'extern "C" __global__ void k(float* x) { x[0] = 1.f; }\n'
    for line in traps(secrets)[:7]:
        found = nvrtc.compile_cuda(f"{line}\n{kernel}", plan(launch("k", "x:p")), "sm_90a", cache)
        text = (
            f"{found.message} {found.detail}"
            if isinstance(found, Fault)
            else f"{found.log} {found.ptx} {found.path.read_bytes()!r}"
        )
        assert SECRET not in text
    assert len(seen) > 7
    assert not [text for text in seen if SECRET in text]


def test_a_candidates_process_on_a_gpu_gets_what_the_driver_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    given = processes.environment()
    assert given["CUDA_VISIBLE_DEVICES"] == "0"
    assert SECRET in os.environ.values()
    assert SECRET not in given.values()
