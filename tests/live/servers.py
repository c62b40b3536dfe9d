"""Real vLLM and SGLang servers on a CPU, each with a process group of its own.

They need no weights: vLLM renders without a model, and SGLang's scheduler is replaced. Their Python, which tox makes, is
named by the variable :data:`PYTHON`; it is not the one that runs the tests.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from ..engines.measured import Server
from ..real_models import fetch
from ..recorded.record import bearer
from ..recorded.shapes import KEY

PYTHON = "TOKENPARITY_SERVER_PYTHON"
_STARTS_WITHIN = 600  # seconds: the first start compiles what it imports
_LOG_TAIL = 6000  # characters

_SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
MODEL_CONFIGS = {
    "qwen3": {
        **_SMALL,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": 151936,
        "rope_theta": 1000000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "bos_token_id": 151643,
        "eos_token_id": 151645,
    },
    "gemma3": {
        **_SMALL,
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "vocab_size": 262144,
        "hidden_activation": "gelu_pytorch_tanh",
        "sliding_window": 512,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "pad_token_id": 0,
    },
}
"""The models' own architectures and vocabularies, with one thin layer: nobody reads what they answer."""

_TOOL_FLAGS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
_VLLM = {"VLLM_TARGET_DEVICE": "cpu", "VLLM_NO_USAGE_STATS": "1"}


@contextmanager
def vllm_render(family: str) -> Iterator[Server]:
    """vLLM's server that renders and generates nothing; only Qwen3's has the tool flags, so that both ways are seen."""
    flags = _TOOL_FLAGS if family == "qwen3" else ()
    with _model_folder(family) as folder, _port() as port:
        command = ["-m", "vllm.entrypoints.cli.main", "launch", "render", str(folder), "--port", port, *flags]
        with _running(family, port, command, **_VLLM) as server:
            yield server


@contextmanager
def vllm_engine(family: str, *flags: str) -> Iterator[Server]:
    """vLLM's whole server, with weights of no meaning."""
    with _model_folder(family) as folder, _port() as port:
        command = ["-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--port", port, *_TOOL_FLAGS]
        command += ["--load-format", "dummy", "--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", "4"]
        with _running(family, port, [*command, *flags], **_VLLM, VLLM_CPU_KVCACHE_SPACE="1") as server:
            yield server


@contextmanager
def sglang_front(family: str) -> Iterator[Server]:
    """SGLang's HTTP front and tokenizer manager; nothing generates."""
    with _model_folder(family) as folder, _port() as port:
        front = str(Path(__file__).with_name("sglang_front.py"))
        command = [front, "--model-path", str(folder), "--port", port, "--device", "cpu", "--load-format", "dummy"]
        command += ["--skip-server-warmup", "--attention-backend", "torch_native"]
        with _running(family, port, command) as server:
            yield server


@contextmanager
def _running(family: str, port: str, command: Sequence[str], **environment: str) -> Iterator[Server]:
    """The server of a command, once it lists its model; RuntimeError with the end of its log if it does not."""
    python = os.environ.get(PYTHON)
    if not python:
        raise RuntimeError(
            f"{PYTHON} must name the Python that has the server: tox -e vllm, sglang or vllm-cpu sets it"
        )
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "PYTHON", "TOX"))}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [python, *command, "--host", "127.0.0.1", "--served-model-name", family, "--api-key", KEY],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**inherited, "HF_HUB_OFFLINE": "1", **environment},
            start_new_session=True,  # its workers end with it
        )
        try:
            server = Server(family, f"http://127.0.0.1:{port}")
            why = _not_ready(server, process)
            if why:
                log.seek(0)
                tail = log.read().decode("utf-8", "replace")[-_LOG_TAIL:]
                raise RuntimeError(f"{' '.join([python, *command])}\n{why}; the end of its log:\n{tail}")
            yield server
        finally:
            _end(process)


def _not_ready(server: Server, process: subprocess.Popen[bytes]) -> str | None:
    """Wait until the server lists its model. Why it never will, or None."""
    started = time.monotonic()
    last = "nothing listened"
    while time.monotonic() - started < _STARTS_WITHIN:
        if process.poll() is not None:
            return f"the server ended with exit code {process.returncode} before it answered"
        try:
            with server.http() as client:
                answer = client.get("/v1/models", headers=bearer(KEY), timeout=5)
            if answer.status_code == 200:
                return None
            last = f"/v1/models answered with status {answer.status_code}"
        except httpx.HTTPError as error:
            last = f"/v1/models: {error!r}"
        time.sleep(0.5)
    return f"the server was not ready within {_STARTS_WITHIN} s ({last})"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server and every process that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)


@contextmanager
def _model_folder(family: str) -> Iterator[Path]:
    """What a server takes for a model: the real tokenizer with its template, and the configuration of a tiny network."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(fetch(family) / name, folder / name)
        (folder / "config.json").write_text(json.dumps(MODEL_CONFIGS[family]), encoding="utf-8")
        yield folder


@contextmanager
def _port() -> Iterator[str]:
    """A port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    yield str(port)
