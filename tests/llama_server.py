"""llama.cpp's own HTTP server, from the xllamacpp wheel, in a process of its own on a free port.

Run as a script it serves one GGUF: ``python tests/llama_server.py MODEL.gguf``; the first line it prints is the address.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def llama_server(gguf: Path, slots: Path | None = None) -> Iterator[str]:
    """Serve a GGUF; gives the server's address, and stops the server's process at the end. ``slots``: where slots are saved."""
    with tempfile.TemporaryFile() as log:
        command = [sys.executable, __file__, str(gguf), *([f"{slots}/"] if slots else [])]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address:
                process.wait()
                log.seek(0)
                raise RuntimeError(f"llama-server did not start: {log.read().decode(errors='replace')[-2000:]}")
            yield address
        finally:
            process.terminate()
            process.wait()
            if process.stdout:
                process.stdout.close()


def serve(gguf: str, slots: str = "") -> None:
    """Serve in this process until it is terminated."""
    import signal

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.port = 0
    params.n_ctx, params.n_parallel = 16384, 2
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # more spin against each other on few cores
    params.warmup = params.fit_params = False
    params.endpoint_props = True
    params.slot_save_path = slots
    params.verbosity = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    serve(*sys.argv[1:])
