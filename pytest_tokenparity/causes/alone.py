"""What is odd in one request alone, with no other engine to compare: the reference's prompt is looked at, and proven.

Every remark but those on switches and BOS is shown by a second rendering: the request is marked or changed, and what the
prompt then does is the proof. Searching the prompt for words would say too much: people write None, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from ..chat_template import undeclared_variables
from ..engines.base import Engine
from ..engines.tokenizers import SPECIAL_TOKENS, TokenizersTokens
from ..errors import EngineError, RequestRefused
from ..request import Request
from ..words import brief, one_line, printable
from .explanation import direct_engine
from .prompt import Body, Prompts
from .where import Span, field_at, fields_of

ControlTokens = Literal["allow", "warn", "fail"]

_FUNCTIONS = frozenset({"raise_exception", "strftime_now", "namespace", "dict", "range", "cycler", "joiner", "lipsum"})
_STANDARD = frozenset({"messages", "tools", "documents", "add_generation_prompt", *SPECIAL_TOKENS, *_FUNCTIONS})
_THINK = re.compile(r"</?(?:think|thinking|thought|reasoning)>|\[/?THINK\]")
_MARKS = 0xF0000  # plane 15, for private use: one character for each text, container or null
_MOST_MARKS = 0xFF00
_ANY_MARK = re.compile(f"[{chr(_MARKS)}-{chr(_MARKS + _MOST_MARKS - 1)}]")
_NONE, _END = "\U000ffffc", "\U000ffffd"
_CERTAIN = 16  # a text of so many characters that stands in the prompt, in its turn, has arrived
_MOST_RENDERS = 24
_MOST_TOKENS = 6  # that one message names


@dataclass(frozen=True)
class Remark:
    """One oddity of a request.

    ``name`` is one of ``switch-ignored``, ``lost``, ``text-as-special``, ``printed-none``, ``printed-repr`` and
    ``bos-count``; ``message`` is one line for a person; ``where`` the field that it is about, if it is about one.
    """

    name: str
    message: str
    where: str | None
    fails: bool = False


def remarks(
    reference: Engine,
    request: Request,
    ids: Sequence[int] | None = None,
    *,
    control_tokens: ControlTokens = "warn",
) -> list[Remark]:
    """What is odd in a request as the reference renders it; nothing for a request that it refuses.

    ``ids`` are the reference's IDs where they are known already. Only a :class:`TransformersTokens` or a
    :class:`TokenizersTokens` can be looked into: any other reference gives no remarks. EngineError if it has no usable
    template. A wrong BOS count fails always, control tokens that come from the request's own text do under
    ``control_tokens="fail"``; all else warns.
    """
    engine = direct_engine(reference)
    if engine is None:
        return []
    try:
        looked = _Looked(engine, request, ids)
    except RequestRefused:
        return []
    of_text = looked.lost()
    if control_tokens != "allow":
        of_text += looked.text_as_special(fails=control_tokens == "fail")
    of_text += looked.printed()
    if of_text and not looked.is_the_reference:  # the text that was looked at is not the reference's
        of_text = []
    return [*looked.bos_count(), *looked.switches_ignored(), *of_text]


class _Looked:
    """One request, its prompt, and what can be shown of it by rendering it again."""

    def __init__(self, engine: TokenizersTokens, request: Request, ids: Sequence[int] | None) -> None:
        self.engine = engine
        self.request = request
        self.template = engine.template_for(request)
        self.text = engine.text(request)
        self.given = None if ids is None else list(ids)

    @cached_property
    def encoding(self) -> Any:
        return self.engine.files.tokenizer.encode(self.text, add_special_tokens=False)

    @property
    def ids(self) -> list[int]:
        return self.given if self.given is not None else list(self.encoding.ids)

    @property
    def is_the_reference(self) -> bool:
        return self.given is None or self.given == list(self.encoding.ids)

    @cached_property
    def prompts(self) -> Prompts:
        return Prompts(self.engine, self.engine.files.vocabulary, self.request, self.ids, self.text)

    def rendered(self, body: Body, **environment: Any) -> str | None:
        """The prompt of a changed request in a changed environment; None if the template refuses it."""
        try:
            return self.engine.compose(body.request, replace(self.engine.environment, **environment))
        except RequestRefused:
            return None

    # Switches and BOS: no second rendering

    def switches_ignored(self) -> list[Remark]:
        if not self.request.template_kwargs:
            return []
        variables = _variables(self.template)
        known = variables | {name for name in _FUNCTIONS if name in self.template}
        return [
            _remark("switch-ignored", _ignored(key, variables, self.template), f"template_kwargs.{key}")
            for key, value in self.request.template_kwargs.items()
            if key not in known
            and not (key == "documents" and value is None)  # Transformers gives every template those
        ]

    def bos_count(self) -> list[Remark]:
        """A wrong number of BOS.

        None where the tokenizer names no BOS. One leads the prompt where the model uses it: where its tokenizer adds it to
        a text by itself, or its own template writes it; elsewhere (a name in the settings that nothing uses) none is right
        too. More than one at the start is never right. Further BOS inside a prompt are right where the model's own template
        writes as many for this request (Llama 2: one for each turn; SmolLM2: its BOS is <|im_start|>).
        """
        files = self.engine.files
        bos = files.bos
        if bos is None:
            return []
        number = files.tokenizer.token_to_id(bos)
        ids = self.ids
        leading = next((at for at, token in enumerate(ids) if token != number), len(ids))
        shown = f"{bos} ({'no token of the tokenizer' if number is None else f'ID {number}'})"
        if leading > 1:
            return _bos(
                f"{leading} BOS tokens {shown} lead the prompt, not one", "take all but one out of what is rendered"
            )
        if leading == 0 and _known(self.engine, self.template).uses_bos:
            found = "stands later" if number in ids else "is not there"
            return _bos(
                f"no BOS token {shown} leads the prompt: it {found}", "let the template begin with {{ bos_token }}"
            )
        count = ids.count(number) if number is not None else 0
        own = self._own_bos(number) if number is not None and count > leading else None
        if own is not None and own < count:
            return _bos(
                f"{count} BOS tokens {shown} stand in the prompt, the model's own template writes {own}",
                "let the template write {{ bos_token }} once, at its beginning",
            )
        return []

    def _own_bos(self, number: int) -> int | None:
        """How many BOS the model's own template gives this request, where another one is in use."""
        templates = self.engine.files.templates
        if self.template in templates.values() or "default" not in templates:
            return None
        try:
            text = self.rendered(Body.of(self.request), template=templates["default"])
        except EngineError:  # it has a syntax error, which is why another is in use
            return None
        return None if text is None else self.engine.files.encode(text).count(number)

    # Text that does not arrive

    def lost(self) -> list[Remark]:
        """Texts of messages that the prompt does not hold: with each of them changed the prompt is the same.

        What an assistant's text holds up to the end of a think block is reasoning, which templates drop on purpose.
        """
        texts = [text for text in _texts(self.request.messages) if text.core]
        if self._all_in_turn(texts):
            return []
        marked = self._marked(texts)
        if marked is not None:
            seen = set(marked)
            missing = [text for text, mark in zip(texts, _characters(len(texts)), strict=False) if mark not in seen]
            if _without_marks(marked) != self.text:  # a mark changed what the template does
                missing = [text for text in missing[:_MOST_RENDERS] if self._marked([text]) == self.text]
        else:
            missing = [text for text in texts[:_MOST_RENDERS] if self._marked([text]) == self.text]
        return [
            _remark(
                "lost",
                f"the template drops {how}, nothing of it reaches the prompt: {brief(text.core)}; send it in a message "
                "that the template renders",
                text.path,
            )
            for text in missing
            for how in (self._how_much(text),)
        ]

    def _how_much(self, lost: _Text) -> str:
        """What of a text is lost whose middle is: all of it, if the prompt is the same with any other text in its place."""
        named = f"{lost.path} (role {brief(lost.role, 30)})"
        return named if self._with_another(lost) == self.text else f"a part of {named}"

    def _with_another(self, lost: _Text) -> str | None:
        """The prompt with another text in place of one."""
        body = Body.of(self.request)
        for text in _texts(body.messages):
            if text.path == lost.path:
                text.home[text.key] = chr(0xF0000)
        return self.rendered(body)

    def _all_in_turn(self, texts: list[_Text]) -> bool:
        """Whether every text stands in the prompt behind the one before it, and is long enough to be no accident."""
        at = 0
        for text in texts:
            if len(text.core) < _CERTAIN or (found := self.text.find(text.core, at)) < 0:
                return False
            at = found + len(text.core)
        return True

    def _marked(self, texts: list[_Text]) -> str | None:
        marks = dict(zip((text.path for text in texts), _characters(len(texts)), strict=False))
        body = Body.of(self.request)
        for text in _texts(body.messages):
            if text.path in marks:
                text.home[text.key] = text.value[: text.middle] + marks[text.path] + text.value[text.middle :]
        return self.rendered(body)

    # Control tokens out of the request's own text

    def text_as_special(self, *, fails: bool) -> list[Remark]:
        """Control tokens of the prompt that come from texts, keys or schemas of the request, and are parsed as tokens.

        Think marks in an assistant's own text are what the model wrote: no remark.
        """
        pattern = _known(self.engine, self.template).control
        if pattern is None or not any(
            _foreign(pattern, value, role) for value, role in _strings(self.request) if "<" in value or "[" in value
        ):
            return []
        found: dict[str, list[str]] = {}
        spans = fields_of(self.prompts)
        for match in pattern.finditer(self.text):
            around = [span for span in spans if span.start <= match.start() and match.end() <= span.end]
            around = around or self._python_around(match.start())
            if not around or not self._parsed(match):
                continue
            path = min(around, key=lambda span: (span.end - span.start, -len(span.path))).path
            if not (_THINK.fullmatch(match[0]) and self._is_assistant_text(path)):
                found.setdefault(path, []).append(match[0])
        return [
            _remark(
                "text-as-special",
                f"{path} holds {_listed(tokens)}, parsed as {_control_tokens(len(tokens))}: take them out of the text, or "
                "say `control_tokens: allow` in the case if they are meant",
                path,
                fails=fails,
            )
            for path, tokens in found.items()
        ]

    def _python_around(self, at: int) -> list[Span]:
        """The list or mapping around a place, as Python writes it: Python escapes the marks of the texts in it."""
        _, printed = self._printing or ([], [])
        return [span for span in printed if span.path and span.start <= at < span.end]

    def _parsed(self, match: re.Match[str]) -> bool:
        number = self.engine.files.added[match[0]]
        return any(start < match.end() and match.start() < end for start, end in self._places.get(number, ()))

    @cached_property
    def _places(self) -> dict[int, list[tuple[int, int]]]:
        places: dict[int, list[tuple[int, int]]] = {}
        for number, place in zip(self.encoding.ids, self.encoding.offsets, strict=True):
            places.setdefault(number, []).append(place)
        return places

    def _is_assistant_text(self, path: str) -> bool:
        at = re.match(r"messages\[(\d+)\]\.content\b", path)
        return at is not None and self.request.messages[int(at[1])].get("role") == "assistant"

    # Python's words in the prompt

    def printed(self) -> list[Remark]:
        """The word None where there is nothing, and lists or mappings as Python writes them."""
        none = "None" in self.text
        if not none and not _looks_like_python(self.text, self.request):
            return []
        nones, reprs = self._printing or ([], [])
        return [*(self._nulls(nones) if none else []), *self._reprs(reprs)]

    @cached_property
    def _printing(self) -> tuple[list[int], list[Span]] | None:
        """Where ``{{ }}`` printed None, and where a list or mapping was written; None if looking changes the prompt.

        The path of a list or mapping that the template itself made is empty.
        """
        marker = _Marker()
        marked = self.rendered(Body.of(self.request), values=marker.values, printed=marker.printed)
        if marked is None:
            return None
        bare: list[str] = []
        length = 0
        nones: list[int] = []
        opened: list[tuple[str, int]] = []
        reprs: list[Span] = []
        for character in marked:
            if character == _NONE:
                nones.append(length)
                bare.append("None")
                length += 4
            elif character == _END and opened:
                path, start = opened.pop()
                if not opened:  # what stands inside another is written by it
                    reprs.append(Span(start, length, path))
            elif (path_of := marker.path_of(character)) is not None:
                opened.append((path_of, length))
            else:
                bare.append(character)
                length += 1
        return None if "".join(bare) != self.text else (nones, reprs)

    def _nulls(self, printed: list[int]) -> list[Remark]:
        """Nulls that are printed: with a mark in place of the null the prompt has that mark in place of a None.

        ``printed`` are the places of None that no field need explain: the template's own variables.
        """
        paths = _nulls_of(self.request)[:_MOST_MARKS]
        found = self._printed_for(paths)
        if found is None:
            found = {}
            for path in paths[:_MOST_RENDERS]:
                found |= self._printed_for([path]) or {}
        explained = {at for places in found.values() for at in places}
        made = [_null(path, path) for path in found]
        others = dict.fromkeys(field_at(self.prompts, at) for at in printed if at not in explained)
        return made + [_null(place or "a variable", place) for place in others]

    def _printed_for(self, paths: list[str]) -> dict[str, list[int]] | None:
        """Where the nulls of some paths are printed; None if the prompt changes otherwise when they are no nulls."""
        if not paths:
            return {}
        marks = dict(zip(_characters(len(paths)), paths, strict=True))
        body = Body.of(self.request)
        wanted = {path: mark for mark, path in marks.items()}
        for path, home, key in _slots(body):
            if path in wanted:
                home[key] = wanted[path]
        text = self.rendered(body)
        if text is None or "".join("None" if character in marks else character for character in text) != self.text:
            return None
        found: dict[str, list[int]] = {}
        shift = 0
        for at, character in enumerate(text):
            if character in marks:
                found.setdefault(marks[character], []).append(at + shift)
                shift += len("None") - 1
        return found

    def _reprs(self, printed: list[Span]) -> list[Remark]:
        made: dict[str, Remark] = {}
        for span in printed:
            path, words = span.path, self.text[span.start : span.end]
            if _is_json(words) and not path.endswith(".content"):
                continue  # [1, 2] and {} are the same in JSON, which is what such templates mean
            where = path or field_at(self.prompts, span.start)
            what = path or f"a list or mapping ({where})"
            message = (
                f"the template prints {what} as Python writes it: {brief(words)}; send a string where the template "
                "expects one, or let the template use tojson"
            )
            alike = "tools" if where and where.startswith("tools[") else where  # what prints one tool prints all
            made.setdefault(alike or "", _remark("printed-repr", message, where))
        return list(made.values())


class _Text(NamedTuple):
    """One text of a message's content, and where it stands: ``home[key]``."""

    path: str
    role: Any
    home: Any
    key: Any

    @property
    def value(self) -> str:
        return str(self.home[self.key])

    @property
    def visible(self) -> int:
        """Where the text begins that is no reasoning."""
        if self.role != "assistant" or not (marks := list(_THINK.finditer(self.value))):
            return 0
        closing = [mark for mark in marks if "/" in mark[0]]
        return closing[-1].end() if closing else 0

    @property
    def core(self) -> str:
        return self.value[self.visible :].strip()

    @property
    def middle(self) -> int:
        rest = self.value[self.visible :]
        return self.visible + len(rest) - len(rest.lstrip()) + len(self.core) // 2


class _Marker:
    """Lists and mappings that show when they are written as Python writes them, and a mark for each None printed."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.roots = iter(("messages", "tools"))  # the order in which they are asked for

    def values(self, value: Any) -> Any:
        return self._of(value, next(self.roots))

    def printed(self, value: Any) -> Any:
        if value is None:
            return _NONE
        return self._of(value, "") if type(value) in (list, dict) else value

    def path_of(self, character: str) -> str | None:
        at = ord(character) - _MARKS
        return self.paths[at] if 0 <= at < len(self.paths) else None

    def _of(self, value: Any, path: str) -> Any:
        if not isinstance(value, (list, dict)) or len(self.paths) >= _MOST_MARKS:
            return value
        mark = chr(_MARKS + len(self.paths))
        self.paths.append(path)
        if isinstance(value, list):
            return _ShownList(mark, [self._of(entry, path and f"{path}[{at}]") for at, entry in enumerate(value)])
        return _ShownDict(mark, {key: self._of(entry, path and f"{path}.{key}") for key, entry in value.items()})


class _ShownList(list[Any]):
    def __init__(self, mark: str, values: list[Any]) -> None:
        super().__init__(values)
        self._mark = mark

    def __repr__(self) -> str:
        return f"{self._mark}{super().__repr__()}{_END}"


class _ShownDict(dict[Any, Any]):
    def __init__(self, mark: str, values: dict[Any, Any]) -> None:
        super().__init__(values)
        self._mark = mark

    def __repr__(self) -> str:
        return f"{self._mark}{super().__repr__()}{_END}"


@dataclass(frozen=True)
class _Known:
    """What is known of a tokenizer with one template, for every request."""

    control: re.Pattern[str] | None
    uses_bos: bool


_KNOWN: WeakKeyDictionary[TokenizersTokens, dict[str, _Known]] = WeakKeyDictionary()


def _known(engine: TokenizersTokens, template: str) -> _Known:
    of_engine = _KNOWN.setdefault(engine, {})
    if template not in of_engine:
        of_engine[template] = _Known(_control(engine, template), _uses_bos(engine))
    return of_engine[template]


def _control(engine: TokenizersTokens, template: str) -> re.Pattern[str] | None:
    """What finds control tokens in a text.

    They are the special tokens, and of the other added ones those in brackets that the template names (<tool_call>,
    <think>) or that have the form of special ones (<|fim_prefix|>). Others are words that happen to be one token: Gemma
    has thousands, runs of newlines and HTML among them.
    """
    files = engine.files
    tokens = {token for token in files.special_added if token.strip()}
    for token in files.added:
        bracketed = len(token) > 2 and token[0] + token[-1] in ("<>", "[]")
        if bracketed and (token in template or (token[1] in "|｜" and token[-2] in "|｜")):  # noqa: RUF001
            tokens.add(token)
    if not tokens:
        return None
    return re.compile("|".join(map(re.escape, sorted(tokens, key=lambda token: (-len(token), token)))))


def _uses_bos(engine: TokenizersTokens) -> bool:
    """Whether the tokenizer itself adds its BOS to a text, or one of the model's own templates writes it."""
    files = engine.files
    bos = files.bos
    if bos is None:
        return False
    if files.tokenizer.token_to_id(bos) in files.tokenizer.encode("", add_special_tokens=True).ids:
        return True
    return any(bos in own or "bos_token" in own for own in files.templates.values())


@lru_cache(maxsize=64)
def _variables(template: str) -> frozenset[str]:
    return undeclared_variables(template)


def _ignored(key: str, variables: frozenset[str], template: str) -> str:
    lead = f"the chat template never reads {brief(key)}"
    switches = sorted(name for name in variables - _STANDARD if _is_switch(name, template))
    if close := get_close_matches(key, switches, n=1):
        return f"{lead}: did you mean {close[0]}?"
    if switches:
        return f"{lead}: remove it; what it reads: {', '.join(switches)}"
    return f"{lead}: remove it; it reads no switch at all"


def _is_switch(name: str, template: str) -> bool:
    """Whether a variable comes from outside: the template never sets it, or reads it before it does."""
    free = rf"(?<![.\w'\"]){name}\b"
    if not re.search(rf"\bset\s+(?:\w+\s*,\s*)*{name}\b", template):
        return True
    asked = rf"{free}\s+is\s+(?:not\s+)?(?:un)?defined\b|{free}\s*\|\s*default\b|\bset\s+{name}\s*=[^%]*?{free}"
    return re.search(asked, template) is not None


def _remark(name: str, message: str, where: str | None, *, fails: bool = False) -> Remark:
    return Remark(name, one_line(message), where, fails)


def _bos(found: str, advice: str) -> list[Remark]:
    return [_remark("bos-count", f"{found}; {advice}", None, fails=True)]


def _null(what: str, where: str | None) -> Remark:
    message = f"the template prints the word None for {what}, where there is nothing: leave it out, or give it a value"
    return _remark("printed-none", message, where)


def _listed(tokens: list[str]) -> str:
    names = [printable(token) for token in dict.fromkeys(tokens)]
    more = f" and {len(names) - _MOST_TOKENS} more" if len(names) > _MOST_TOKENS else ""
    return ", ".join(names[:_MOST_TOKENS]) + more


def _control_tokens(count: int) -> str:
    return "a control token" if count == 1 else f"{count} control tokens"


def _characters(count: int) -> list[str]:
    return [chr(_MARKS + at) for at in range(min(count, _MOST_MARKS))]


def _without_marks(text: str) -> str:
    return _ANY_MARK.sub("", text)


def _texts(messages: Sequence[Any]) -> Iterator[_Text]:
    """The texts of the messages' contents: the content itself, or those of its parts."""
    for number, message in enumerate(messages):
        content, role = message.get("content"), message.get("role")
        path = f"messages[{number}].content"
        if isinstance(content, str):
            yield _Text(path, role, message, "content")
        for at, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, str):
                yield _Text(f"{path}[{at}]", role, content, at)
            elif isinstance(part, dict) and isinstance(part.get("text"), str):
                yield _Text(f"{path}[{at}].text", role, part, "text")


def _strings(request: Request) -> Iterator[tuple[str, str | None]]:
    """Every string of messages and tools, keys included; those of an assistant's content with its role."""

    def of(value: Any, role: str | None) -> Iterator[tuple[str, str | None]]:
        if isinstance(value, str):
            yield value, role
        elif isinstance(value, dict):
            for key, entry in value.items():
                yield str(key), None
                yield from of(entry, role)
        elif isinstance(value, list):
            for entry in value:
                yield from of(entry, role)

    for message in request.messages:
        for key, entry in message.items():
            yield from of(entry, message.get("role") if key == "content" else None)
    yield from of(list(request.tools or ()), None)


def _foreign(pattern: re.Pattern[str], value: str, role: str | None) -> bool:
    """Whether a text holds control tokens that are none of an assistant's own."""
    if role != "assistant":
        return pattern.search(value) is not None
    return any(not _THINK.fullmatch(match[0]) for match in pattern.finditer(value))


def _looks_like_python(text: str, request: Request) -> bool:
    if "{'" in text or "['" in text:
        return True
    return any(isinstance(message.get("content"), (list, dict)) for message in request.messages) and (
        "[" in text or "{" in text
    )


def _is_json(words: str) -> bool:
    try:
        json.loads(words)
    except ValueError:
        return False
    return True


def _slots(body: Body) -> Iterator[tuple[str, Any, Any]]:
    """Every place of a request that holds null, and the content of messages that have none: path, container, key."""

    def of(value: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
        entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, entry in list(entries):
            inner = f"{path}.{key}" if isinstance(value, dict) else f"{path}[{key}]"
            if entry is None:
                yield inner, value, key
            else:
                yield from of(entry, inner)

    for number, message in enumerate(body.messages):
        yield from of(message, f"messages[{number}]")
        if "content" not in message:
            yield f"messages[{number}].content", message, "content"
    yield from of(body.tools or [], "tools")
    yield from of(body.template_kwargs, "template_kwargs")


def _nulls_of(request: Request) -> list[str]:
    return [path for path, _, _ in _slots(Body.of(request))]
