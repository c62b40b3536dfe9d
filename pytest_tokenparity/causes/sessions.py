"""Why a later request of a session does not repeat the leading tokens of an earlier one.

First the two requests are compared: what the client changed is taken back in the later request, which is rendered once
more. If it then repeats the earlier one, or repeats more of it, the change is the cause. Where the requests share what they
should, the template itself writes the past otherwise; what it does is shown by rendering the earlier request without the
reasoning, or its generation prompt without the empty think block. Nothing is named that such a rendering does not show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from ..engines.base import Engine
from ..engines.tokenizers import TokenizersTokens
from ..errors import RequestRefused
from ..prefix import shared_prefix
from ..request import Request
from ..words import brief
from .client_changes import THINKING, ClientChange, client_changes, has_reasoning, undone, without_reasoning
from .explanation import NamedCause, direct_engine
from .prompt import Prompts
from .where import field_at

BreakClass = Literal["generation-prompt", "history-rewritten", "request-changed", "retokenised"]

_EMPTY_BLOCK = re.compile(r"<(think|thinking|reasoning)>\s*</\1>\s*")
_SHOWN = 40  # characters of a text in a note
_PARAMETERS = 4  # of one cause that are shown
_SORTED = 12  # changes of which each is rendered alone to put them in the order of the prompt
_PIECES = 4  # tokens shown of a text that was cut otherwise
_ALIKE = (3, 2)  # tokens before and from a break on that two engines must share for one to explain the other

_SAYS: Mapping[str, tuple[str, str]] = {
    "tools-reordered": (
        "the later request sends the same tools in another order ({})",
        "send the tools in one order, such as sorted by name",
    ),
    "tools-changed": (
        "the later request sends other tools ({})",
        "send the same tools with every request of a session, and refuse a call where one is not allowed now",
    ),
    "tool-field-dropped": (
        "the later request sends a tool without fields that it had ({})",
        "send each tool with the same fields every time",
    ),
    "tool-field-added": (
        "the later request sends a tool with fields that it had not ({})",
        "send each tool with the same fields every time",
    ),
    "tool-field-changed": (
        "the later request sends a tool with another value ({})",
        "keep what changes (dates, counts, user names) out of tool schemas",
    ),
    "tool-keys-reordered": (
        "the later request sends the keys of a tool in another order ({})",
        "write each schema once and send it as it is, or with sorted keys",
    ),
    "volatile-system-text": (
        "the system text is another one in the later request ({})",
        "keep clocks and identifiers out of the system text: put them into the newest user turn",
    ),
    "think-block-in-prompt-only": (
        "the generation prompt ends in an empty think block, and history is rendered without it ({})",
        "nothing in the request: allow these tokens (`prefix: {tail: N}`), or use a template that keeps the block",
    ),
    "reasoning-dropped": (
        "the reasoning of an earlier turn is not in the later prompt ({})",
        "send past reasoning while the template keeps it; what a template drops after a new user turn is computed again once",
    ),
    "arguments-reordered": (
        "the later request sends the arguments of a call in another order ({})",
        "keep a call's arguments as the string that the model wrote, or as a mapping in its order",
    ),
    "switch-changed": (
        "the later request sets a switch of the template otherwise ({})",
        "set the template's switches once for a session",
    ),
    "turn-edited": (
        "an earlier turn is another one in the later request ({})",
        "send earlier turns unchanged; add what is new in a turn at the end",
    ),
    "turn-removed": (
        "the later request leaves earlier turns out ({}), as after a compaction or a rewind",
        "no fault: document it (`prefix: {breaks: [...]}`); compact seldom, and much at once",
    ),
    "retokenised": (
        "the text is the same and was cut into other tokens ({})",
        "send the sampled IDs where the engine takes IDs; else the rest is computed again from here",
    ),
}


@dataclass(frozen=True)
class BreakExplanation:
    """Why a later request leaves an earlier one.

    ``kind`` is the class of the first break, None where it is not known; ``causes`` are named only where a rendering of
    the reference showed them, those of the first break first, then what would break behind it. ``where`` is a field of the
    earlier request, or of the later one for what only that has. ``proven``: all of it was shown on exactly the IDs that
    were given; not so where an engine's IDs are other ones than the reference's. ``note`` says what is not explained.
    """

    kind: BreakClass | None
    causes: tuple[NamedCause, ...] = ()
    where: str | None = None
    proven: bool = False
    note: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the causes."""
        return tuple(cause.name for cause in self.causes)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What a report says below the headline of the break: labels and texts."""
        kind = f" ({self.kind})" if self.kind else ""
        rows = [("where", f"{self.where}{kind}")] if self.where else []
        rows += [("cause", str(cause)) for cause in self.causes]
        if not self.causes:
            rows.append(("cause", f"not known{kind}"))
        rows += [("note", self.note)] if self.note else []
        rows += [("fix", fix) for fix in dict.fromkeys(cause.fix for cause in self.causes)]
        return rows


def explain_break(
    reference: Engine,
    earlier: Request,
    later: Request,
    earlier_ids: Sequence[int],
    later_ids: Sequence[int],
    *,
    generated: Sequence[int] | None = None,
) -> BreakExplanation:
    """Why ``later_ids`` do not start with ``earlier_ids`` (and what was ``generated`` after them, where that is known).

    ``reference`` is a :class:`TransformersTokens` or a :class:`TokenizersTokens`. The IDs may be another engine's: as far
    as that breaks at the same place as the reference does, the reference explains it. EngineError if the reference cannot
    render at all.
    """
    cached = [*earlier_ids, *(generated or ())]
    position = shared_prefix(cached, later_ids)
    if position == len(cached):
        return BreakExplanation(None, note="the later request repeats all of the earlier one")
    direct = direct_engine(reference)
    if direct is None:
        return BreakExplanation(None, note=f"the reference {reference.name!r} cannot be asked: only transformers can")
    try:
        session = _Session(direct, earlier, later)
    except RequestRefused as refused:
        return BreakExplanation(None, note=f"the reference refuses one of the requests: {brief(str(refused), 160)}")
    same = session.earlier.ids == list(earlier_ids) and session.later.ids == list(later_ids)
    if not same and not _breaks_alike(session, earlier_ids, later_ids):
        return BreakExplanation(None, note=_other_engine(session))
    in_reply = position >= len(earlier_ids)
    if in_reply and not same:
        return BreakExplanation(None, note="the reference does not render these requests' own IDs")
    found = _Reply(session, list(generated or ())).explain() if in_reply else session.explain()
    if same or found.kind is None:
        return found
    note = "shown on the reference's own renderings, which break at the same text"
    return replace(found, proven=False, note=f"{note}; {found.note}" if found.note else note)


class _Prompt:
    """A text of the reference; its IDs and the end of its history are made when they are first asked for."""

    def __init__(self, engine: TokenizersTokens, request: Request, text: str, ids: Sequence[int] | None = None) -> None:
        self.engine = engine
        self.request = request
        self.text = text
        self._ids = ids

    @cached_property
    def ids(self) -> list[int]:
        return self.engine.files.encode(self.text) if self._ids is None else list(self._ids)

    @cached_property
    def history(self) -> int:
        """How much of the text stands before the generation prompt."""
        if self.request.add_generation_prompt:
            with suppress(RequestRefused):
                shorter = self.engine.text(replace(self.request, add_generation_prompt=False))
                if self.text.startswith(shorter):
                    return len(shorter)
        return len(self.text)


class _Session:
    """Two requests as the reference renders them, now and under changes."""

    def __init__(self, engine: TokenizersTokens, earlier: Request, later: Request) -> None:
        self.engine = engine
        self.requests = earlier, later
        self.earlier = self.render(earlier)
        self.later = self.render(later)

    def render(self, request: Request) -> _Prompt:
        return _Prompt(self.engine, request, self.engine.text(request))

    def try_render(self, request: Request) -> _Prompt | None:
        try:
            return self.render(request)
        except RequestRefused:
            return None

    def explain(self) -> BreakExplanation:
        """Take back what the client changed, then what the template rewrites, until the later prompt repeats the earlier."""
        changes = client_changes(*self.requests)
        restored = self.try_render(undone(*self.requests, changes))
        refused = restored is None
        if restored is None:
            changes, restored = self._alone(changes)
        template, rewritten = self._from_template(restored)
        needed, final = self._needed(changes, rewritten)
        causes = list(_named(needed))
        kind: BreakClass | None = "request-changed"
        if not _further(self.earlier, self.later, self.earlier, final):
            kind = self._kind(final)
            causes = [*template, *causes]
        else:
            causes += template
        note = None
        if (left := _left(rewritten, final)) is not None:
            if rewritten.text == final.text[: len(rewritten.text)]:
                causes.append(self._retokenised(rewritten.ids, final.ids, left))
                kind = kind if len(causes) > 1 else "retokenised"
            else:
                note = self._unexplained(rewritten, final, bool(causes))
        if refused:
            kind = kind if causes else None
            note = "the template refuses the later request with all changes of the client undone"
        where = self._where(causes[:1])
        return BreakExplanation(kind, tuple(causes), where, kind is not None, note)

    # What the client changed

    def _alone(self, changes: list[ClientChange]) -> tuple[list[ClientChange], _Prompt]:
        """The one change that brings the later prompt farthest, where the template refuses it with all undone."""
        best: tuple[list[ClientChange], _Prompt] = [], self.later
        for change in changes:
            tried = self.try_render(undone(*self.requests, [change]))
            if tried is not None and _text_position(self.earlier, tried) > _text_position(self.earlier, best[1]):
                best = [change], tried
        return best

    def _needed(self, changes: list[ClientChange], goal: _Prompt) -> tuple[list[ClientChange], _Prompt]:
        """The changes without which the later prompt does not come as far, and the prompt under these."""
        earlier, later = self.requests
        best = self.try_render(undone(earlier, later, changes)) or self.later
        needed = list(changes)
        for change in reversed(changes):
            fewer = [other for other in needed if other is not change]
            tried = self.try_render(undone(earlier, later, fewer))
            if tried is not None and _text_position(goal, tried) >= _text_position(goal, best):
                needed, best = fewer, tried
        if len(needed) <= _SORTED:
            needed = sorted(needed, key=lambda change: self._place(goal, needed, change))
        return needed, best

    def _place(self, goal: _Prompt, needed: list[ClientChange], change: ClientChange) -> int:
        """Where one change alone breaks the later prompt."""
        others = [other for other in needed if other is not change]
        return _text_position(goal, self.try_render(undone(*self.requests, others)) or self.later)

    # What the template rewrites

    def _from_template(self, later: _Prompt) -> tuple[list[NamedCause], _Prompt]:
        """What rewrites the past although both requests hold it alike, and the earlier prompt as if it had been so before."""
        causes: list[NamedCause] = []
        prompt, request = self.earlier, self.requests[0]
        if _left(prompt, later) is None:
            return causes, prompt
        request, dropped = self._without_reasoning(request, prompt, later)
        if dropped:
            causes.append(_cause("reasoning-dropped", _few(dropped), dropped))
            prompt = self.render(request)
        block = self._without_think_block(request, prompt, later)
        if block is not None:
            prompt, switch = block
            causes.append(_cause("think-block-in-prompt-only", (switch,) if switch else (), ()))
        return causes, prompt

    def _without_reasoning(self, request: Request, prompt: _Prompt, later: _Prompt) -> tuple[Request, tuple[str, ...]]:
        """The earlier request without the reasoning that the later prompt does not show, and whose reasoning that is."""
        holders = [
            at
            for at, message in enumerate(request.messages)
            if message.get("role") == "assistant" and has_reasoning(message)
        ]

        def bare(chosen: Iterable[int]) -> Request:
            messages = list(request.messages)
            for at in chosen:
                messages[at] = without_reasoning(messages[at])
            return replace(request, messages=messages)

        best = self.try_render(bare(holders))
        if not holders or best is None or not _further(prompt, later, best, later):
            return request, ()
        for at in list(holders):
            fewer = [other for other in holders if other != at]
            tried = self.try_render(bare(fewer))
            if tried is not None and _missing(tried, later) <= _missing(best, later):
                holders, best = fewer, tried
        return bare(holders), tuple(f"messages[{at}]" for at in holders)

    def _without_think_block(self, request: Request, prompt: _Prompt, later: _Prompt) -> tuple[_Prompt, str] | None:
        """The earlier prompt without an empty think block at its end, if that is all that is missing; and the switch."""
        if _text_position(prompt, later) < prompt.history:
            return None
        ending = prompt.text[prompt.history :]
        text = prompt.text[: prompt.history] + _EMPTY_BLOCK.sub("", ending)
        bare = _Prompt(self.engine, request, text)
        if text == prompt.text or not later.text.startswith(text) or not _further(prompt, later, bare, later):
            return None
        for key, value in request.template_kwargs.items():
            kwargs = {name: it for name, it in request.template_kwargs.items() if name != key}
            tried = self.try_render(replace(request, template_kwargs=kwargs))
            if tried is not None and tried.text == text:
                return bare, f"{key}: {json.dumps(value)}"
        return bare, ""

    # What is said of it

    def _kind(self, later: _Prompt) -> BreakClass:
        at = _text_position(self.earlier, later)
        return "generation-prompt" if self.earlier.history <= at < len(self.earlier.text) else "history-rewritten"

    def _unexplained(self, earlier: _Prompt, later: _Prompt, named: bool) -> str:
        at = _text_position(earlier, later)
        behind = "behind it, " if named else ""
        if at >= earlier.history:
            if (role := self._next_role()) != "assistant":
                return f"{behind}no answer follows the generation prompt, but {role or 'nothing'}"
            return (
                f"{behind}the generation prompt has {brief(earlier.text[at:], _SHOWN)}, which history does not repeat"
            )
        now, then = (brief(prompt.text[at : at + _SHOWN], _SHOWN) for prompt in (later, earlier))
        return f"{behind}the template renders an earlier turn otherwise, though it is sent unchanged: {now}, not {then}"

    def _next_role(self) -> str:
        """Who speaks in the later request behind the turns of the earlier one."""
        messages, at = self.requests[1].messages, len(self.requests[0].messages)
        role = str(messages[at].get("role")) if at < len(messages) else ""
        return role if role in ("", "assistant") else f"a turn of the role {brief(role)}"

    def _retokenised(self, earlier: Sequence[int], later: Sequence[int], position: int) -> NamedCause:
        text = self.engine.files.vocabulary.text
        one, other = (list(ids[position:][:_PIECES]) for ids in (earlier, later))
        for end in range(1, len(one) + 1):  # up to where both are cut at the same letter again
            there = [at for at in range(1, len(other) + 1) if text(other[:at]) == text(one[:end])]
            if there:
                one, other = one[:end], other[: there[0]]
                break
        else:
            enough = [at for at in range(1, len(other)) if len(text(other[:at])) >= len(text(one))]
            other = other[: enough[0]] if enough else other
        before, after = (" ".join(brief(text([token]), 20) for token in side) for side in (one, other))
        return _cause("retokenised", (f"{before} -> {after}",), ())

    def _where(self, causes: Sequence[NamedCause]) -> str | None:
        """The field of the break; a cause says it better where it touches that field, or what holds it."""
        at = min(_text_position(self.earlier, self.later), len(self.earlier.text) - 1)
        found, there = (
            field_at(Prompts(self.engine, self.engine.files.vocabulary, request, prompt.ids, prompt.text), at)
            for request, prompt in zip(self.requests, (self.earlier, self.later), strict=True)
        )
        paths = [path for cause in causes for path in cause.where]
        for path in paths:
            if any(field and (_inside(field, path) or _inside(path, field)) for field in (found, there)):
                return path
        outside = found is None or found.startswith(("template text", "generation prompt"))
        return paths[0] if paths and outside else found


class _Reply:
    """A break behind the earlier prompt: in what the model generated, as the cache holds it."""

    def __init__(self, session: _Session, generated: list[int]) -> None:
        self.session = session
        self.generated = generated
        vocabulary = session.engine.files.vocabulary
        prompt = session.earlier
        self.text = vocabulary.text(generated)
        self.sampled = _Prompt(session.engine, session.requests[0], prompt.text + self.text, [*prompt.ids, *generated])
        self.encoded = self._prompt(self.sampled.text)
        self.at = len(session.requests[0].messages)

    def explain(self) -> BreakExplanation:
        """Encode what was sampled, drop its reasoning, or send it as it was: whatever lets the later prompt repeat more."""
        session, later = self.session, self.session.later
        position = shared_prefix(self.sampled.ids, later.ids)
        if shared_prefix(self.encoded.ids, later.ids) > position:
            cause = session._retokenised(self.sampled.ids, later.ids, position)
            found = BreakExplanation("retokenised", (cause,), f"messages[{self.at}]", True)
            if _left(self.encoded, later) is None:
                return found
            rest = self._of_text()
            return replace(found, causes=(cause, *rest.causes), note=rest.note)
        return self._of_text()

    def _of_text(self) -> BreakExplanation:
        session, later, where = self.session, self.session.later, f"messages[{self.at}]"
        messages = session.requests[1].messages
        reply = messages[self.at] if self.at < len(messages) else None
        if reply is None or reply.get("role") != "assistant":
            return BreakExplanation(
                None, (), where, False, "the later request does not hold the turn that was generated"
            )
        bare = self._prompt(session.earlier.text + THINKING.sub("", self.text))
        if bare.text != self.encoded.text and _further(self.encoded, later, bare, later):
            kind: BreakClass = "history-rewritten" if has_reasoning(reply) else "request-changed"
            note = (
                None if _left(bare, later) is None else "behind the reasoning the turn is not what was generated either"
            )
            return BreakExplanation(kind, (_cause("reasoning-dropped", (where,), (where,)),), where, True, note)
        return self._of_message(reply, where)

    def _of_message(self, reply: Mapping[str, Any], where: str) -> BreakExplanation:
        """Whether the client sent the turn otherwise than it was generated."""
        reordered = self._reordered(reply)
        if reordered is not None:
            note = "history writes the call otherwise" if _left(self.encoded, reordered[0]) is not None else None
            return BreakExplanation("request-changed", (reordered[1],), reordered[1].where[0], True, note)
        if reply.get("tool_calls"):
            return BreakExplanation("history-rewritten", (), where, True, "the template writes the call otherwise")
        said = self._said()
        if said != reply.get("content"):
            tried = self._with({"role": "assistant", "content": said})
            if tried is not None and _further(self.encoded, self.session.later, self.encoded, tried):
                path = f"{where}.content"
                cause = _cause("turn-edited", (f"{path} is not what was generated",), (path,))
                return BreakExplanation("request-changed", (cause,), path, True)
        note = "the template renders the turn otherwise than it was generated"
        return BreakExplanation("history-rewritten", (), where, True, note)

    def _reordered(self, reply: Mapping[str, Any]) -> tuple[_Prompt, NamedCause] | None:
        """The later prompt with a call's arguments in the order in which the model wrote them."""
        calls = [dict(call) for call in reply.get("tool_calls") or []]
        for at, call in enumerate(calls):
            function = dict(call.get("function") or call)
            arguments = function.get("arguments")
            if not isinstance(arguments, Mapping):
                continue
            order = sorted(arguments, key=lambda key: self.text.find(json.dumps(key, ensure_ascii=False)))
            if order == list(arguments):
                continue
            function["arguments"] = {key: arguments[key] for key in order}
            changed = [*calls]
            changed[at] = {**call, "function": function} if call.get("function") else function
            tried = self._with({**reply, "tool_calls": changed})
            if tried is not None and _further(self.encoded, self.session.later, self.encoded, tried):
                path = f"messages[{self.at}].tool_calls[{at}].function.arguments"
                shown = f"{', '.join(order)} -> {', '.join(arguments)}"
                return tried, _cause("arguments-reordered", (shown,), (path,))
        return None

    def _said(self) -> str:
        """What was generated, without the special tokens at its end."""
        special, ids = set(self.session.engine.files.special_added), list(self.generated)
        vocabulary = self.session.engine.files.vocabulary
        while ids and vocabulary.text(ids[-1:]) in special:
            ids.pop()
        return vocabulary.text(ids)

    def _with(self, reply: Mapping[str, Any]) -> _Prompt | None:
        messages = list(self.session.requests[1].messages)
        messages[self.at] = reply
        return self.session.try_render(replace(self.session.requests[1], messages=messages))

    def _prompt(self, text: str) -> _Prompt:
        return _Prompt(self.session.engine, self.session.requests[0], text)


# How far a prompt is repeated


def _text_position(earlier: _Prompt, later: _Prompt) -> int:
    """How many characters of the earlier prompt the later repeats; by halves, for prompts are long and often compared."""
    low, high = 0, min(len(earlier.text), len(later.text))
    while low < high:
        middle = (low + high + 1) // 2
        if earlier.text[low:middle] == later.text[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _left(earlier: _Prompt, later: _Prompt) -> int | None:
    """The token at which the later prompt leaves the earlier; None if it repeats it."""
    position = shared_prefix(earlier.ids, later.ids)
    return position if position < len(earlier.ids) else None


def _missing(earlier: _Prompt, later: _Prompt) -> int:
    return len(earlier.ids) - shared_prefix(earlier.ids, later.ids)


def _further(earlier: _Prompt, later: _Prompt, changed_earlier: _Prompt, changed_later: _Prompt) -> bool:
    """Whether the break is gone under changes, or stands behind more of what both repeat."""
    if _left(changed_earlier, changed_later) is None:
        return True
    return shared_prefix(changed_earlier.ids, changed_later.ids) > shared_prefix(earlier.ids, later.ids)


def _breaks_alike(session: _Session, earlier_ids: Sequence[int], later_ids: Sequence[int]) -> bool:
    """Whether the reference breaks at the same tokens as an engine whose prompts are other ones."""
    own = _left(session.earlier, session.later)
    position = shared_prefix(earlier_ids, later_ids)
    if own is None or position >= len(earlier_ids):
        return False
    before, behind = _ALIKE
    before = min(before, own, position)
    return all(
        list(ours[own - before : own + behind]) == list(theirs[position - before : position + behind])
        for ours, theirs in ((session.earlier.ids, earlier_ids), (session.later.ids, later_ids))
    )


def _other_engine(session: _Session) -> str:
    if _left(session.earlier, session.later) is None:
        changes = client_changes(*session.requests)
        sent = ", ".join(dict.fromkeys(change.name for change in changes))
        tail = f"; between these requests the client changed: {sent}" if sent else "; it is sent the same turns"
        return f"the reference repeats its earlier prompt, this engine does not{tail}"
    return "the reference breaks at another place than this engine"


# Names


def _cause(name: str, parameters: tuple[str, ...], where: tuple[str, ...]) -> NamedCause:
    says, fix = _SAYS[name]
    shown = ", ".join(parameters)
    return NamedCause(name, parameters, says.format(shown) if shown else says.replace(" ({})", ""), fix, where)


def _named(changes: Sequence[ClientChange]) -> tuple[NamedCause, ...]:
    """Changes by their names, those of one name together."""
    groups: dict[str, list[ClientChange]] = {}
    for change in changes:
        groups.setdefault(change.name, []).append(change)
    return tuple(
        _cause(
            name,
            _few([change.parameter for change in group]),
            tuple(dict.fromkeys(path for change in group for path in change.paths)),
        )
        for name, group in groups.items()
    )


def _few(parameters: Sequence[str]) -> tuple[str, ...]:
    different = list(dict.fromkeys(parameters))
    if len(different) <= _PARAMETERS:
        return tuple(different)
    return *different[: _PARAMETERS - 1], f"{len(different) - _PARAMETERS + 1} more"


def _inside(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))
