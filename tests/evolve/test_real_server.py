"""A whole CPU search answered by a real OpenAI-compatible server: that of transformers, with a tiny model of random weights.

Needs `pip install 'transformers[serving]>=5.23' accelerate`; the model is made here, nothing is downloaded.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evolve.api import run
from evolve.config import RunConfig
from mutators.question import Rejection
from results.events import RunNoted
from tests.evolve.chat_search import answers, asked
from tests.evolve.simulation import stored

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
START_S = 180
CAP = 240_000
MOST_TOKENS = 200
"""The longest answer to one call."""

MAKE = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
bytes_alone = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(["<end>", *alphabet])}, merges=[]))
bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bytes_alone.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_alone, eos_token="<end>", pad_token="<end>")
tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
shape = LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
                    num_key_value_heads=1, max_position_embeddings=65536, eos_token_id=0, pad_token_id=0, bos_token_id=None)
model = LlamaForCausalLM(shape)
model.generation_config.do_sample = True
model.save_pretrained(sys.argv[1])
tokenizer.save_pretrained(sys.argv[1])
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and name of the tiny model."""
    pytest.importorskip("transformers", reason="pip install 'transformers[serving]' accelerate")
    folder = tmp_path_factory.mktemp("model")
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([sys.executable, "-c", MAKE, str(folder)], env=offline, check=True, timeout=120)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["serve", str(folder), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    start = "import sys; from transformers.cli.transformers import main; sys.exit(main())"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", start, *command], env=offline, stdout=log, stderr=log)
    try:
        for _ in range(START_S):
            if process.poll() is not None or healthy(port):
                break
            time.sleep(1)
        assert healthy(port), (folder / "log").read_text()[-2000:]
        yield f"http://127.0.0.1:{port}/v1", str(folder)
    finally:
        process.terminate()
        process.wait(20)


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def test_garbage_from_a_real_model_ends_by_budget_and_loses_nothing(served: tuple[str, str], tmp_path: Path) -> None:
    url, name = served
    model = {"name": "tiny", "served_as": name, "base_url": url, "parameters": {"temperature": 1.2, "min_p_typo": 0.1}}
    config = RunConfig.model_validate(
        {
            "run": {"name": "garbage"},
            "task": {"scenarios": "cpu_quick", "backend": "cpu"},
            "population": {"seeds": ["cpu_plain"]},
            "evaluation": {"pace": "quick"},
            "executor": {"kind": "inline", "lookahead": 2},
            "budget": {"candidates": 50, "tokens": CAP},
            "mutation": {"answerer": "chat"},
            "chat": {"models": [model], "max_answer_tokens": MOST_TOKENS, "at_once": 2},
        }
    )
    result = run(config, root=tmp_path)
    steps = asked(result.folder)
    notes = "\n".join(event.text for event in stored(result.folder) if isinstance(event, RunNoted))
    assert "the budget of tokens is spent" in notes
    assert len(steps) >= 3
    assert {step.rejected.reason for step in steps if step.rejected} <= {Rejection.HEADER_MISSING, Rejection.NO_CODE}
    assert all(step.rejected for step in steps), "no garbage became a candidate"
    usages = [answer.usage for answer in answers(result.folder)]
    assert sum(usage.prompt_tokens + usage.answer_tokens for usage in usages) == result.spent["tokens"] <= CAP
    assert any(answer.first for answer in answers(result.folder)), "garbage is sent back once, and the first text is kept"
    assert all(usage.prompt_tokens > 1000 for usage in usages)
    turns = 2 * (MOST_TOKENS + 1)  # each may begin with an empty answer, which is one token
    assert all(0 < usage.answer_tokens <= turns for usage in usages)
    assert not any(usage.estimated for usage in usages), "the server's own figures were usable"
    assert np.isfinite(result.best.over_baseline.ratio if result.best else np.nan), "the seed was measured and kept"
