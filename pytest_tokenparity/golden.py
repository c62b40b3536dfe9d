"""Golden files: the reference's IDs for one (model, case), with where they came from."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .errors import ConfigError, GoldenError
from .prefix import shared_prefix
from .vocabulary import Vocabulary
from .words import brief
from .yaml12 import kind, loads, shown

FORMAT = 1
_UNSEEN = re.compile(
    "[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\ufeff\ufff9-\ufffc\ud800-\udfff\ue000-\uf8ff]"
)


@dataclass(frozen=True)
class Provenance:
    """Where a golden came from. A hash is None where there was nothing to hash."""

    engine: str
    tokenizers: str | None = None
    tokenizer_sha256: str | None = None
    template_sha256: str | None = None
    request_sha256: str | None = None


@dataclass(frozen=True)
class GoldenRequest:
    """One request's prompt: its token IDs, or the message with which the reference refused it.

    ``messages`` is the number of messages; None for IDs that a test made itself.
    """

    messages: int | None
    ids: list[int] | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Golden:
    """What one golden file holds. ``texts`` are the rows as written: IDs with the text that stood beside them."""

    model: str
    case: str
    file: str
    recorded: Provenance
    requests: tuple[GoldenRequest, ...]
    stop: Mapping[str, int] = field(default_factory=dict)
    texts: tuple[tuple[list[int], str], ...] = field(default=(), compare=False, repr=False)


def golden_path(golden_dir: Path, model: str, folder: str, name: str) -> Path:
    """``golden_dir/<model>/<case file>/<case>.json``."""
    return golden_dir.joinpath(model, folder, f"{name}.json")


def template_sha256(templates: Sequence[str]) -> str:
    """The SHA-256 of the chat templates that the requests of a case are rendered with, each once."""
    return hashlib.sha256("\0".join(templates).encode("utf-8", "surrogatepass")).hexdigest()


def read(path: Path) -> Golden | None:
    """The golden in a file; None if there is no file. GoldenError says what in it cannot be used."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GoldenError(f"{shown(path)}: cannot be read: {error.strerror or error}") from None
    try:
        body = json.loads(raw, object_pairs_hook=_unique)
    except _Twice as twice:
        raise GoldenError(f"{_place_of_twin(path, raw)}: the key {brief(twice.key)} stands twice: keep one") from None
    except RecursionError:
        raise GoldenError(f"{shown(path)}: no golden: nested without end") from None
    except UnicodeDecodeError:
        raise GoldenError(f"{shown(path)}: no golden: not UTF-8") from None
    except ValueError as error:
        where = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise GoldenError(f"{shown(path)}{where}: not JSON ({what}): cut short, or a merge conflict?") from None
    try:
        return _golden(body)
    except _Misfit as misfit:
        raise GoldenError(f"{shown(path)}: {misfit}") from None


def is_there(path: Path) -> bool:
    """Whether there is a golden, or something else in its place. GoldenError if that cannot be told."""
    try:
        return path.exists()
    except OSError as error:
        raise GoldenError(f"{shown(path)}: cannot be read: {error.strerror or error}") from None


def is_file(path: Path) -> bool:
    """Whether what a golden names is a file; a name that no disk takes is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def defines(path: Path, function: str) -> bool:
    """Whether a test file still has a function of that name."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return False
    return re.search(rf"^[ \t]*(?:async )?def {re.escape(function)}\(", text, re.MULTILINE) is not None


def dump(golden: Golden, vocabulary: Vocabulary) -> str:
    """The text of a golden file: one line is one line of the prompt, IDs beside their text."""
    recorded = golden.recorded
    head = [
        ("format", FORMAT),
        ("model", golden.model),
        ("case", golden.case),
        ("file", golden.file),
    ]
    lines = ["{", *(f"  {_json(key)}: {_json(value)}," for key, value in head)]
    lines += [
        '  "recorded": {',
        f'    "engine": {_json(recorded.engine)},',
        f'    "tokenizers": {_json(recorded.tokenizers)},',
        f'    "tokenizer_sha256": {_json(recorded.tokenizer_sha256)},',
        f'    "template_sha256": {_json(recorded.template_sha256)},',
        f'    "request_sha256": {_json(recorded.request_sha256)}',
        "  },",
    ]
    if golden.stop:
        lines.append(f'  "stop": {_json(dict(golden.stop))},')
    lines.append('  "requests": [')
    earlier: Sequence[int] = ()
    for number, request in enumerate(golden.requests, 1):
        comma = "," if number < len(golden.requests) else ""
        if request.ids is None:
            lines.append(f'    {{"messages": {_json(request.messages)}, "refused": {_json(request.refused)}}}{comma}')
            earlier = ()
            continue
        keep = shared_prefix(earlier, request.ids)
        rows = vocabulary.lines(request.ids[keep:])
        opening = (
            f'    {{"messages": {_json(request.messages)}, "tokens": {len(request.ids)}, "keep": {keep}, "append": ['
        )
        lines.append(opening + ("" if rows else f"]}}{comma}"))
        lines += [f"      {_row(ids, text)}{',' if row < len(rows) else ''}" for row, (ids, text) in enumerate(rows, 1)]
        if rows:
            lines.append(f"    ]}}{comma}")
        earlier = request.ids
    return "\n".join([*lines, "  ]", "}", ""])


def write(path: Path, golden: Golden, vocabulary: Vocabulary) -> str:
    """Write a golden if its file would change, atomically; ``new``, ``changed`` or ``unchanged``.

    A file whose prompts, hashes and stop strings are the same stays as it is, though another version of the reference
    rendered them now, or refused in other words: nothing about it changed. GoldenError when it cannot be written.
    """
    try:
        old = read(path)
        before = path.read_bytes() if old else b""
    except GoldenError:  # unreadable as a golden: what we write now mends it
        old, before = None, b"?"
    if old is not None:
        recorded = replace(golden.recorded, engine=old.recorded.engine, tokenizers=old.recorded.tokenizers)
        requests = golden.requests
        if len(requests) == len(old.requests):
            requests = tuple(
                replace(now, refused=then.refused) if now.refused is not None and then.refused is not None else now
                for now, then in zip(requests, old.requests, strict=True)
            )
        if dump(replace(golden, recorded=recorded, requests=requests), vocabulary).encode() == before:
            return "unchanged"
    _write_atomically(path, dump(golden, vocabulary).encode())
    return "changed" if before else "new"


def listed(golden_dir: Path) -> Iterator[tuple[Path, str, str, str]]:
    """Every golden under a folder as (path, model, case, file); what is no readable golden is passed over."""
    for path in sorted(golden_dir.glob("*/**/*.json")):
        with suppress(GoldenError):
            golden = read(path)
            if golden is not None:
                yield path, golden.model, golden.case, golden.file


def line_of(path: Path, ids: list[int], text: str) -> int | None:
    """The line of a golden file on which a row of IDs and text stands; None if it is not written as we write it."""
    row = _row(ids, text)
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if line.strip().rstrip(",") == row:
            return number
    return None


def remove(path: Path, golden_dir: Path) -> None:
    """Delete a golden, and the folders above it that are empty then, up to ``golden_dir``."""
    path.unlink()
    for folder in path.parents:
        if folder == golden_dir or any(folder.iterdir()):
            break
        folder.rmdir()


class _Misfit(Exception):
    """What in a JSON body is not as a golden has it."""


class _Twice(ValueError):
    """A key that stands twice in one object."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for key, value in pairs:
        if key in body:
            raise _Twice(key)
        body[key] = value
    return body


def _place_of_twin(path: Path, raw: bytes) -> str:
    """``file:line`` of a key that stands twice: JSON is YAML, whose parser knows the lines."""
    try:
        loads(raw.decode(json.detect_encoding(raw), "replace"), path)
    except ConfigError as error:
        return str(error).partition(": ")[0]
    return shown(path)


def _golden(body: Any) -> Golden:
    if not isinstance(body, dict) or "format" not in body:
        raise _Misfit("no golden: it has no `format`")
    if type(body["format"]) is not int or body["format"] != FORMAT:
        raise _Misfit(
            f"format {brief(body['format'])}; this version reads format {FORMAT}: update the plugin, or record again"
        )
    recorded = _get(body, "recorded", dict, "the golden")
    requests: list[GoldenRequest] = []
    texts: list[tuple[list[int], str]] = []
    earlier: list[int] = []
    for number, entry in enumerate(_get(body, "requests", list, "the golden"), 1):
        request, rows = _request(entry, earlier, f"request {number}")
        requests.append(request)
        texts += rows
        earlier = request.ids or []
    stop = body.get("stop", {})
    if not isinstance(stop, dict) or not all(_is_id(token) for token in stop.values()):
        raise _Misfit("damaged: `stop` must hold strings with their token IDs")
    return Golden(
        model=_get(body, "model", str, "the golden"),
        case=_get(body, "case", str, "the golden"),
        file=_get(body, "file", str, "the golden"),
        recorded=Provenance(
            _get(recorded, "engine", str, "`recorded`"),
            *(
                _optional(recorded, key)
                for key in ("tokenizers", "tokenizer_sha256", "template_sha256", "request_sha256")
            ),
        ),
        requests=tuple(requests),
        stop=stop,
        texts=tuple(texts),
    )


def _request(entry: Any, earlier: list[int], what: str) -> tuple[GoldenRequest, list[tuple[list[int], str]]]:
    if not isinstance(entry, dict):
        raise _Misfit(f"damaged: {what} is {kind(entry)}")
    messages = entry.get("messages")
    if not (messages is None or _is_id(messages)):
        raise _Misfit(f"damaged: {what} has {kind(messages)} as its number of messages")
    if "refused" in entry:
        return GoldenRequest(messages, refused=_get(entry, "refused", str, what)), []
    keep, tokens = _get(entry, "keep", int, what), _get(entry, "tokens", int, what)
    if not 0 <= keep <= len(earlier):
        raise _Misfit(f"damaged: {what} keeps {keep} tokens of a request that has {len(earlier)}")
    ids = earlier[:keep]
    rows = _get(entry, "append", list, what)
    for row in rows:
        if not (isinstance(row, list) and len(row) == 2 and isinstance(row[0], list) and isinstance(row[1], str)):
            raise _Misfit(f"damaged: {what} has a row that is not [[IDs], text]")
        ids += row[0]
    if not set(map(type, ids)) <= {int} or (ids and min(ids) < 0):
        raise _Misfit(f"damaged: {what} holds something that is no token ID")
    if len(ids) != tokens:
        raise _Misfit(f"damaged: {what} says {tokens} tokens and holds {len(ids)}")
    return GoldenRequest(messages, ids), [(row[0], row[1]) for row in rows]


def _get(body: dict[str, Any], key: str, wanted: type, what: str) -> Any:
    value = body.get(key)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise _Misfit(
            f"damaged: `{key}` of {what} is {kind(value)}" if key in body else f"damaged: {what} has no `{key}`"
        )
    return value


def _optional(body: dict[str, Any], key: str) -> str | None:
    value = body.get(key)
    if not (value is None or isinstance(value, str)):
        raise _Misfit(f"damaged: `recorded.{key}` is {kind(value)}")
    return value


def _is_id(value: Any) -> bool:
    return type(value) is int and value >= 0


def _row(ids: list[int], text: str) -> str:
    return f"[{json.dumps(ids)}, {_json(text)}]"


def _json(value: Any) -> str:
    """JSON with readable text; characters that a diff would not show, or would reorder, are escapes."""
    written = json.dumps(value, ensure_ascii=False)
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", written)


def _write_atomically(path: Path, content: bytes) -> None:
    temporary: str | None = None
    try:
        path = Path(os.path.realpath(path)) if path.is_symlink() else path  # a link stays one: its target is written
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.stat().st_mode & 0o222:  # replacing it would work, and is not what was meant
            raise PermissionError(13, "the file is read-only")
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        raise GoldenError(f"{shown(path)}: cannot be written: {error.strerror or error}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
