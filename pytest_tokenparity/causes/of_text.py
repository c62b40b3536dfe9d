"""Causes after the template: the text changed, encoded otherwise, or IDs added and taken away."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from ..compare import first_divergence
from .cause import Cause, View
from .encoding import Encoding, normalises
from .of_content import whitespace
from .of_environment import trimmed
from .prompt import Change, Layer

_Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
_FORMS: tuple[_Form, ...] = ("NFC", "NFD", "NFKC", "NFKD")
_LOOKS_SPECIAL = re.compile(r"<[^\s<>]+>\Z|\[[^\s\[\]]+\]\Z")
_LEAST_CUT = 4  # tokens: fewer are an edit like any other


def _whitespace(view: View) -> Iterator[Change]:
    """Whitespace in the content, at the end of the prompt, and after special tokens."""
    yield from whitespace(view)
    yield from trimmed(view)
    text, target = view.text, view.target
    if "\r\n" in target and "\n" in text and "\r" not in text:

        def as_crlf(whole: str) -> str:
            return whole.replace("\n", "\r\n")

        yield Change("whitespace", "LF became CRLF", Layer.TEXT, as_crlf, ("every line end",))
    ours, theirs = _last_space(text), _last_space(target)
    # a continued turn ends in its content
    if text and ours != theirs and (ours.startswith(theirs) or not view.body.continue_final_message):

        def end(whole: str) -> str:
            return whole[: len(whole) - len(ours)] + theirs if whole.endswith(ours) else whole

        yield Change("whitespace", "the end of the prompt", Layer.TEXT, end, ("the generation prompt",), copied=True)
    for content in dict.fromkeys(view.prompts.engine.files.added):
        if content.strip() and text.count(content) >= 2 and content in target:
            yield from _after(view, content, re.escape(content))
            yield from _after(view, f"{content} and a role", re.escape(content) + r"\w+")


def _after(view: View, name: str, anchor: str) -> Iterator[Change]:
    """Other whitespace wherever the anchor stands; what content begins with follows it."""
    before, after = (re.findall(anchor + r"(\s*)", text) for text in (view.text, view.target))
    old, new = _common_start(before), _common_start(after)
    if old == new:
        return

    def swap(whole: str) -> str:
        return re.sub(f"({anchor}){re.escape(old)}", lambda found: found[1] + new, whole)

    yield Change("whitespace", f"after {name}", Layer.TEXT, swap, (f"after {name}",), copied=True)


def _last_space(text: str) -> str:
    return text[len(text.rstrip()) :]


def _common_start(texts: list[str]) -> str:
    first, last = min(texts, default=""), max(texts, default="")
    return first[: first_divergence(first, last)]


def _normalised(view: View) -> Iterator[Change]:
    """The text itself normalised, which shows in the engine's text."""
    for form in _FORMS:
        if unicodedata.normalize(form, view.text) != view.text:

            def apply(text: str, form: _Form = form) -> str:
                return unicodedata.normalize(form, text)

            evidence = unicodedata.is_normalized(form, view.target)
            yield Change("unicode-normalised", form, Layer.TEXT, apply, _changed_by(view, form), evidence)


def _changed_by(view: View, form: _Form) -> tuple[str, ...]:
    return tuple(
        path for path, value in view.leaves if isinstance(value, str) and not unicodedata.is_normalized(form, value)
    )


# Encodings


def encoded_otherwise(view: View) -> Iterator[Change]:
    """Changes of the encoding, for a text that is the engine's own while the IDs are not."""
    text = view.prompts.text(view.changes) or ""
    ids = view.prompts.answer.ids or []
    added = view.prompts.engine.files.added
    files = view.prompts.engine.files
    bos, eos = files.added.get(files.bos or ""), files.added.get(files.eos or "")
    shown = set(
        ids[_leading(ids, bos) : len(ids) - _leading(ids[::-1], eos)]
    )  # what the engine itself adds says nothing
    present = [content for content in added if content and content in text]
    # A BOS at the front and an EOS at the end were set aside: of these nothing is known.
    apart = {files.bos, files.eos if files.eos and text.count(files.eos) == 1 and text.endswith(files.eos) else None}
    absent = [content for content in present if added[content] not in shown and content not in apart]
    missing = [content for content in absent if _LOOKS_SPECIAL.match(content)]
    special = view.prompts.engine.files.special_added
    if present and all(content not in special or added[content] not in shown for content in present):
        # What only looks special to `tokenizers` is a control token for llama.cpp.
        plain = frozenset(content for content in missing if content not in special)

        def as_text(encoding: Encoding) -> Encoding:
            return replace(encoding, special_as_text=True, missing=plain)

        def as_text_with_bos(encoding: Encoding) -> Encoding:
            return replace(encoding, special_as_text=True, bos_as_text=True, missing=plain)

        yield Change("special-as-text", "", Layer.ENCODING, as_text, ("special tokens",))
        if files.bos and text.startswith(files.bos):
            yield Change("special-as-text", "BOS too", Layer.ENCODING, as_text_with_bos, ("special tokens",))
    written = [(path, value) for path, value in view.leaves if isinstance(value, str)]
    typed = [(path, value) for path, value in written if any(content in value for content in present)]
    if typed:
        values = [value for _, value in typed]

        def spans(whole: str) -> list[tuple[int, int]]:
            forms = {form.strip() for value in values for form in (value, json.dumps(value, ensure_ascii=False)[1:-1])}
            return [match.span() for form in forms if form for match in re.finditer(re.escape(form), whole)]

        def shield(encoding: Encoding) -> Encoding:
            return replace(encoding, shielded=spans)

        def shield_each(encoding: Encoding) -> Encoding:
            return replace(encoding, shielded=spans, apart=True)

        paths = tuple(path for path, _ in typed)
        yield Change("text-shielded", "", Layer.ENCODING, shield, paths)
        yield Change("text-shielded", "each token by itself", Layer.ENCODING, shield_each, paths)
    if missing and len(missing) < len(present):

        def without(encoding: Encoding) -> Encoding:
            return replace(encoding, missing=frozenset(missing))

        yield Change(
            "vocabulary-differs",
            ", ".join(missing),
            Layer.ENCODING,
            without,
            tuple(f"the token {it}" for it in missing),
        )
    extra = _parsed_by_the_engine(view, text, ids)
    if extra:

        def parsing(encoding: Encoding) -> Encoding:
            return replace(encoding, extra=frozenset(extra))

        asked = tuple(path for path, value in written if any(content in value for content in extra))
        if asked:
            yield Change("text-as-special", ", ".join(extra), Layer.ENCODING, parsing, asked)
        else:
            names = tuple(f"the token {it}" for it in extra)
            yield Change("vocabulary-differs", ", ".join(extra), Layer.ENCODING, parsing, names)
    if normalises(view.prompts.engine.files, text):
        yield _normalizer("none", view)
    for form in _FORMS:
        if unicodedata.normalize(form, text) != text:
            yield _normalizer(form, view)


def _parsed_by_the_engine(view: View, text: str, ids: list[int]) -> list[str]:
    """Tokens that look special, which the engine shows and the reference does not parse, such as Qwen3's ``</s>``."""
    found = []
    for token in dict.fromkeys(ids):
        piece = (view.prompts.vocabulary.piece(token) or b"").decode("utf-8", "replace")
        if _LOOKS_SPECIAL.match(piece) and piece in text and piece not in view.prompts.engine.files.added:
            found.append(piece)
    return found


def _normalizer(form: str, view: View) -> Change:
    def apply(encoding: Encoding) -> Encoding:
        return replace(encoding, normalizer=form)

    paths = tuple(
        path
        for path, value in view.leaves
        if isinstance(value, str) and any(not unicodedata.is_normalized(known, value) for known in _FORMS[:1])
    )
    return Change("unicode-normalised", form, Layer.ENCODING, apply, paths)


# IDs


def counted_otherwise(ours: list[int], theirs: list[int], bos: int | None, eos: int | None) -> list[Change]:
    """BOS and EOS as the engine has them, where it has another number of them."""
    changes = []
    before, after = _leading(ours, bos), _leading(theirs, bos)
    if bos is not None and before != after:

        def begin(ids: list[int]) -> list[int]:
            return [bos] * after + ids[_leading(ids, bos) :]

        name = bos_name(before, after)
        changes.append(Change(name, f"{before} -> {after}", Layer.IDS, begin, ("the first token",)))
    had, has = _leading(ours[::-1], eos), _leading(theirs[::-1], eos)
    if eos is not None and has > had:

        def end(ids: list[int]) -> list[int]:
            return ids + [eos] * (has - had)

        changes.append(Change("eos-appended", f"{had} -> {has}", Layer.IDS, end, ("the last token",), order=1))
    return changes


def bos_name(before: int, after: int) -> str:
    """What a change in the number of BOS is called."""
    if after > before:
        return "bos-added" if before == 0 else "bos-doubled"
    return "bos-missing" if after == 0 and before == 1 else "bos-removed"


def cut_off(ours: list[int], theirs: list[int]) -> Change | None:
    """The engine's IDs as a part of ours, cut at one end; a BOS at the front may have been kept."""
    cut = len(ours) - len(theirs)
    if cut < _LEAST_CUT or len(theirs) < _LEAST_CUT:
        return None
    kinds: tuple[tuple[str, Callable[[list[int]], list[int]]], ...] = (
        (f"the first {cut} tokens", lambda ids: ids[cut:]),
        (f"the last {cut} tokens", lambda ids: ids[:-cut]),
        (f"the first {cut} tokens after the first", lambda ids: ids[:1] + ids[cut + 1 :]),
    )
    for parameter, apply in kinds:
        if apply(ours) == theirs:
            return Change("truncated", parameter, Layer.IDS, apply, ("the prompt",), copied=True, order=2)
    return None


def _leading(ids: list[int], token: int | None) -> int:
    count = 0
    while token is not None and count < len(ids) and ids[count] == token:
        count += 1
    return count


def _nothing(_: View) -> Iterator[Change]:
    return iter(())


def _bos(name: str, says: str, fix: str) -> Cause:
    seen = {"client-completion": "llama-server b11549, vLLM 0.33.0, SGLang 0.5.23", "llama-server": "b11549"}
    return Cause(name, says, fix, seen, _nothing)


CAUSES = (
    Cause(
        "whitespace",
        "with whitespace changed ({})",
        "send content without whitespace at its ends, and render it with the model's own chat template",
        {
            "client-completion": "hand-written renderers",
            "shimmy": "2.5.0 (source)",
            "llama-server": "b11549 (trims spaces of ASCII alone)",
        },
        _whitespace,
    ),
    Cause(
        "unicode-normalised",
        "with the Unicode normalisation {}",
        "normalise text to NFC before it is sent",
        {"llama-server": "b11549 (normalises nothing)", "client-completion": "clients"},
        _normalised,
    ),
    Cause(
        "special-as-text",
        "with special tokens read as plain text",
        "tokenize the prompt with special tokens parsed (`parse_special`)",
        {"client-completion": "llama-server b11549", "shimmy": "2.5.0 (source)"},
        _nothing,
    ),
    Cause(
        "text-shielded",
        "with special tokens inside the request's own text read as plain text",
        "take control tokens out of what users write before it is sent",
        {"mistral-common": "1.13.1", "transformers": "5.24.0 (sanitize_control_tokens)"},
        _nothing,
    ),
    Cause(
        "text-as-special",
        "with {} inside the request's own text parsed as a special token",
        "take control tokens out of what users write before it is sent",
        {"llama-server": "b11549", "vllm": "0.33.0", "sglang": "0.5.23"},
        _nothing,
    ),
    Cause(
        "vocabulary-differs",
        "with a vocabulary that does not have {}",
        "convert the model again from its current tokenizer files",
        {"llama-server": "GGUFs"},
        _nothing,
    ),
    _bos(
        "bos-doubled",
        "with another BOS before it ({})",
        "post the prompt without its BOS, or post IDs (vLLM: add_special_tokens: false)",
    ),
    _bos("bos-added", "with a BOS before it ({})", "set add_bos_token of the engine's tokenizer to false"),
    _bos("bos-missing", "without its BOS ({})", "set add_bos_token of the engine's tokenizer to true"),
    _bos("bos-removed", "with fewer BOS before it ({})", "render one BOS"),
    Cause(
        "eos-appended",
        "with an EOS behind it ({})",
        "set add_eos_token of the engine's tokenizer to false",
        {"llama-server": "b11549"},
        _nothing,
    ),
)
