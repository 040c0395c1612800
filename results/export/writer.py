"""Writes a kernel as a folder that pip installs: package, kernel, domain, provenance, manifest, licence."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from population.candidate import Language, short_id
from results.codec import plain
from results.export.domain import domain_document
from results.export.page import readme
from results.export.spec import ExportSpec

RUNTIME = Path(__file__).with_name("runtime")
BACKEND = "wheel_backend.py"
ATTENTION = "attention_forward"
_IMPORT = re.compile(r"^from (?:evaluator\.plan|evaluator|population)\.(\w+) import", re.MULTILINE)
_LAUNCHERS = {Language.CPP: {"cuda_kernel.py"}, Language.CUDA: {"cpu_kernel.py", "cpu_pool.cpp"}}
"""Files of the runtime that a kernel of the language has no use for."""


def write_torch(spec: ExportSpec, folder: Path) -> Path:
    """The folder, written whole: a source tree without build requirements. FileExistsError where something is there."""
    folder.mkdir(parents=True, exist_ok=False)
    package = {**_modules(spec), **_documents(spec), **_kernel(spec), **spec.extra_files}
    listed = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(package.items())}
    package["manifest.json"] = _json({"format": 1, "candidate": spec.candidate.id, "files": listed})
    root = {
        "pyproject.toml": _pyproject(spec).encode(),
        "README.md": readme(spec).encode(),
        "LICENSE": spec.license.encode(),
        BACKEND: (RUNTIME / BACKEND).read_bytes(),
    }
    for name, content in {**root, **{f"{spec.module}/{name}": content for name, content in package.items()}}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def _modules(spec: ExportSpec) -> dict[str, bytes]:
    """The code of the package: the runtime, the plan's own modules, and an ``__init__.py`` with the entry points."""
    left_out = {BACKEND, "__init__.py", *_LAUNCHERS[spec.candidate.language]}
    if spec.card.name != ATTENTION:
        left_out |= {"attention.py", "attention_torch.py", "verify.py", "verify_text.py"}
    found = {
        path.name: path.read_bytes()
        for path in sorted(RUNTIME.iterdir())
        if path.suffix in {".py", ".cpp"} and path.name not in left_out
    }
    for name, text in spec.plan_modules.items():
        found[f"_plan/{name}.py"] = _IMPORT.sub(r"from .\1 import", text).encode()
    found["_plan/__init__.py"] = b""
    found["__init__.py"] = _entry(spec).encode()
    return found


def _entry(spec: ExportSpec) -> str:
    """The text of the package's ``__init__.py``."""
    task = spec.card.name
    axes = {extent for tensor in spec.card.tensors if tensor.role == "input" for extent in tensor.shape}
    given = [f"{tensor.name}: torch.Tensor" for tensor in spec.card.tensors if tensor.role == "input"]
    given += [f"{name}: float" for name in spec.card.scalars]
    given += [f"{name}: int" for name in spec.card.symbols if name != "dtype" and name not in axes]
    passed = ", ".join(text.partition(":")[0] for text in given)
    attention = task == ATTENTION
    lines = [
        f'"""{task}: kernel {short_id(spec.candidate.id)}, exported by AskEvolve. See domain.json, provenance.json."""',
        "",
        "from typing import Any",
        "",
        "import torch",
        "",
        *(["from .attention import Attention", "from .attention_torch import by_torch"] if attention else []),
        "from .errors import CannotRun",
        "from .operator import register",
        "from .outside import on_outside",
        "",
        f"OPERATOR, _handle = register({{{f'{task!r}: by_torch' if attention else ''}}})",
        "",
        "",
        f"def {task}({', '.join(given)}) -> Any:",
        f'    """{spec.card.summary}."""',
        f"    return _handle({passed})",
        "",
        "",
    ]
    if attention:
        lines += ["_entries = Attention(_handle)", "scaled_dot_product_attention = _entries.scaled_dot_product_attention"]
        lines += ["flash_attn_func = _entries.flash_attn_func", "transformers_attention = _entries.transformers_attention"]
    names = ["CannotRun", "OPERATOR", task, "on_outside"]
    names += ["flash_attn_func", "scaled_dot_product_attention", "transformers_attention"] if attention else []
    return "\n".join([*lines, f"__all__ = {names!r}", ""])


def _documents(spec: ExportSpec) -> dict[str, bytes]:
    card = plain(spec.card)
    task = {key: card[key] for key in card if key not in {"scenarios", "baselines", "notes"}}
    return {
        "task.json": _json(task),
        "domain.json": _json(domain_document(spec)),
        "provenance.json": _json(spec.provenance),
        "final.json": _json(plain(spec.final)),
        "LICENSE": spec.license.encode(),
        "py.typed": b"",
    }


def _kernel(spec: ExportSpec) -> dict[str, bytes]:
    """The kernel's source, builds and ``kernel.json``, below ``kernels/``."""
    source = f"kernel.{spec.candidate.language.value}"
    files = {f"kernels/{source}": spec.candidate.source.encode("utf-8", "surrogateescape")}
    builds = []
    for number, build in enumerate(spec.builds):
        name = f"build{number}.{build.suffix}"
        files[f"kernels/{name}"] = build.artefact
        builds.append(
            {
                "defines": dict(build.defines),
                "file": name,
                "sha256": hashlib.sha256(build.artefact).hexdigest(),
                "arch": build.arch,
                "cpu_flags": list(build.cpu_flags),
                "compile": list(build.compile),
            }
        )
    document = {
        "id": spec.candidate.id,
        "language": spec.candidate.language.value,
        "source": source,
        "plan": spec.plan_text,
        "knobs": plain(list(spec.knobs)),
        "device_facts": dict(spec.device_facts),
        "archs": sorted({build.arch for build in spec.builds}),
        "builds": builds,
    }
    files["kernels/kernel.json"] = _json(document)
    return files


def _pyproject(spec: ExportSpec) -> str:
    cuda = spec.candidate.language is Language.CUDA
    needed = ["torch>=2.5", *(["cuda-core", "cuda-bindings"] if cuda else [])]
    return f"""[build-system]
requires = []
build-backend = "wheel_backend"
backend-path = ["."]

[project]
name = "{spec.name}"
version = "{spec.version}"
description = "{spec.card.name}, a kernel exported by AskEvolve"
requires-python = ">=3.11"
license = "Apache-2.0"
license-files = ["LICENSE"]
dependencies = {json.dumps(needed)}
"""


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()
