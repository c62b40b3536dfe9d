"""Causes in what does not arrive: whole turns, and the calls of a turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .cause import Cause, View
from .of_content import parts_of, texts_of
from .prompt import Body, Change, Layer

# What is taken away by its place goes before every other change, the last first: places are those of the request asked.
_BY_ROLE = -1
_CALLS = -1_000_000
_ONE_BY_ONE = 4  # turns: more that are gone are taken away at once, for each alone would be rendered with each

Message = dict[str, Any]


def _marks(message: Message) -> list[str]:
    """What of a message must stand in a prompt that has it: its texts, else the names that it calls."""
    parts = parts_of(message)
    texts = texts_of(parts) if parts is not None else [message.get("content")]
    found = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    return found or [call["function"]["name"] for call in _calls(message)]


def _calls(message: Message) -> list[Any]:
    """The calls of a message that name a function."""
    calls = message.get("tool_calls")
    found = [call for call in calls if isinstance(call, dict)] if isinstance(calls, (list, tuple)) else []
    return [it for it in found if isinstance(it.get("function"), dict) and isinstance(it["function"].get("name"), str)]


def _gone(view: View, messages: Sequence[Message]) -> bool:
    """Whether the engine's text lacks something of each of the messages."""
    return all((marks := _marks(message)) and all(map(view.fewer_words, marks)) for message in messages)


def _message_dropped(view: View) -> Iterator[Change]:
    """Single turns, or every turn of a role; the oldest are :func:`_truncated`'s."""
    messages = view.body.messages
    roles = [str(message.get("role")) for message in messages]
    for role in dict.fromkeys(roles):
        of_role = [index for index, it in enumerate(roles) if it == role]
        if role in ("user", "assistant") or len(of_role) == len(messages):
            continue
        if _gone(view, [messages[index] for index in of_role]):

            def drop_role(body: Body, role: str = role) -> None:
                body.messages[:] = [message for message in body.messages if message.get("role") != role]

            paths = tuple(f"messages[{index}]" for index in of_role)
            yield Change("message-dropped", f"every {role} turn", Layer.REQUEST, drop_role, paths, order=_BY_ROLE)
    oldest = 1 if roles[:1] == ["system"] else 0
    single = [
        index
        for index, message in enumerate(messages)
        if index > oldest
        and (roles.count(roles[index]) > 1 or roles[index] in ("user", "assistant"))
        and _gone(view, [message])
    ]
    if len(single) > _ONE_BY_ONE:

        def drop_all(body: Body) -> None:
            body.messages[:] = [it for index, it in enumerate(body.messages) if index not in single]

        paths = tuple(f"messages[{index}]" for index in single)
        yield Change("message-dropped", ", ".join(paths), Layer.REQUEST, drop_all, paths, order=_BY_ROLE - 1)
        return
    for index in single:

        def drop(body: Body, index: int = index) -> None:
            if index < len(body.messages):
                del body.messages[index]

        path = f"messages[{index}]"
        yield Change("message-dropped", path, Layer.REQUEST, drop, (path,), order=_BY_ROLE - 1 - index)


def _calls_dropped(view: View) -> Iterator[Change]:
    """All calls of the request, those of one message, or one of several."""
    calling = {index: calls for index, message in enumerate(view.body.messages) if (calls := _calls(message))}
    if not calling:
        return

    def gone(calls: Sequence[Any]) -> bool:
        return all(view.fewer_names(call["function"]["name"]) for call in calls)

    if gone([call for calls in calling.values() for call in calls]):

        def drop_all(body: Body) -> None:
            for message in body.messages:
                message.pop("tool_calls", None)

        paths = tuple(f"messages[{index}].tool_calls" for index in calling)
        yield Change("calls-dropped", "all", Layer.REQUEST, drop_all, paths, order=_CALLS)
    for index, calls in calling.items():
        if len(calling) > 1 and gone(calls):

            def drop(body: Body, index: int = index) -> None:
                body.messages[index].pop("tool_calls", None)

            path = f"messages[{index}].tool_calls"
            yield Change("calls-dropped", path, Layer.REQUEST, drop, (path,), order=_CALLS)
        for number, call in enumerate(view.body.messages[index]["tool_calls"]):
            if len(calls) > 1 and call in calls and gone([call]):

                def drop_one(body: Body, index: int = index, number: int = number) -> None:
                    body.messages[index]["tool_calls"].pop(number)

                path = f"messages[{index}].tool_calls[{number}]"
                yield Change("calls-dropped", path, Layer.REQUEST, drop_one, (path,), order=_CALLS - 1 - number)


def _truncated(view: View) -> Iterator[Change]:
    """The oldest turns, as a server drops them where the prompt is longer than its context."""
    start = 1 if view.body.messages and view.body.messages[0].get("role") == "system" else 0
    most = len(view.body.messages) - start - 1
    for count in range(1, most + 1):
        gone = view.body.messages[start : start + count]
        if any(message.get("role") in ("system", "developer") for message in gone):
            break
        texts = [
            message["content"] for message in gone if isinstance(message.get("content"), str) and message["content"]
        ]
        if not texts or not all(view.fewer(text) for text in texts):
            break

        def drop(body: Body, count: int = count) -> None:
            first = 1 if body.messages and body.messages[0].get("role") == "system" else 0
            del body.messages[first : first + count]

        paths = tuple(f"messages[{index}]" for index in range(start, start + count))
        parameter = f"the {count} oldest turns" if count > 1 else "the oldest turn"
        yield Change("truncated", parameter, Layer.REQUEST, drop, paths, copied=True, order=10)


def _last_turn_replaced(view: View) -> Iterator[Change]:
    """The user's last turn once more where another turn ends the request."""
    messages = view.body.messages
    asked = [index for index, message in enumerate(messages) if message.get("role") == "user"]
    last = len(messages) - 1
    if not asked or asked[-1] == last:
        return

    def replace(body: Body) -> None:
        of_user = [message for message in body.messages if message.get("role") == "user"]
        if of_user:
            body.messages[-1] = dict(of_user[-1])

    marks = _marks(messages[asked[-1]])
    evidence = bool(marks) and all(map(view.more, marks))
    yield Change(
        "last-turn-replaced",
        f"messages[{asked[-1]}]",
        Layer.REQUEST,
        replace,
        (f"messages[{last}]",),
        evidence,
        order=12,
    )


CAUSES = (
    Cause(
        "message-dropped",
        "without {}",
        "find out what takes it away between the client and the template",
        {"client-completion": "hand-written renderers"},
        _message_dropped,
    ),
    Cause(
        "calls-dropped",
        "without the tool calls of past turns ({})",
        "find out what takes them away between the client and the template: the model does not see that it called",
        {"client-completion": "hand-written renderers"},
        _calls_dropped,
    ),
    Cause(
        "last-turn-replaced",
        "with {} once more in place of the last turn",
        "end the request with a turn of the user",
        {"shimmy": "2.5.0 (source)"},
        _last_turn_replaced,
    ),
    Cause(
        "truncated",
        "without {}",
        "raise the engine's context, or send less",
        {"ollama": "v0.33.0-rc2 (source)"},
        _truncated,
    ),
)
