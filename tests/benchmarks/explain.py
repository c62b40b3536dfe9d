"""What it costs to say why two renderings differ, beside rendering and encoding the same request once.

``python -m tests.benchmarks.explain``: Qwen3, a request of 2,000 tokens with five tools, answered with one, two and three
causes and with a difference that has none, by text and IDs and by IDs alone; then one of 50,000 tokens. Prints renders,
encodes and milliseconds, and how many plain renders with their encoding, made in the same run, that is. The aims: at most
60 renders and 6 encodes for up to three causes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from pytest_tokenparity import Explanation, Request, TokenizersTokens, explain

from ..real_models import QWEN3

RUNS = 3
MOST_RENDERS, MOST_ENCODES = 60, 6
SENTENCES = (
    "The ferry leaves the eastern quay at a quarter past the hour.",
    "Bicycles stand on the lower deck, behind the second door.",
    "In winter the last boat is an hour earlier than the table says.",
    "Ask the mate, not the captain, where the parcels are kept.",
)


def text_of(sentences: int) -> str:
    return " ".join(f"{number}. {SENTENCES[number % len(SENTENCES)]}" for number in range(sentences))


def tool(number: int, **more: Any) -> dict[str, Any]:
    """A tool with a float that llama-server writes otherwise."""
    properties = {
        "quay": {"type": "string", "description": "The quay, as the map names it."},
        "day": {"type": "string", "format": "date", "description": "The day of departure."},
        "seats": {"type": "integer", "minimum": 1, "maximum": 300, "default": 1},
        "share": {"type": "number", "default": 1.0 if number == 2 else 1, "maximum": 12},
    }
    function = {
        "name": f"ferry_{number}",
        "description": f"What the timetable knows of line {number}, quay by quay. {SENTENCES[number % 4]}",
        "parameters": {"type": "object", "properties": properties, "required": ["quay", "day"]},
        **more,
    }
    return {"type": "function", "function": function}


def request_of(sentences: int) -> Request:
    """A conversation with five tools, one of them with a `return`, whose last message is the assistant's."""
    messages = [
        {"role": "system", "content": f"You are the purser of a ferry. {text_of(sentences)}"},
        {"role": "user", "content": f"When does the next boat leave? {text_of(12)}"},
        {"role": "assistant", "content": "The next boat leaves at"},
    ]
    tools = [tool(number, **({"return": {"type": "string"}} if number == 3 else {})) for number in range(5)]
    return Request(messages, tools)


def answered(engine: TokenizersTokens, request: Request, causes: int) -> tuple[list[int], str]:
    """What a llama-server would answer, in text and IDs: a field dropped, a float shortened, the last turn left open.

    Without a cause it has one word more. It is made by cutting the reference's own text, as a server's text differs from it.
    """
    text = engine.text(request)
    for old, new in ((', "return": {"type": "string"}', ""), ('"default": 1.0', '"default": 1'))[:causes]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    if causes > 2:
        end = "<|im_end|>\n<|im_start|>assistant\n"
        assert text.endswith(end)
        text = text.removesuffix(end)
    if causes == 0:
        text = text.replace("behind the second door", "behind the second fimple door", 1)
    return engine.files.encode(text), text


def milliseconds(work: Callable[[], object]) -> float:
    """The median of several runs."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def measure(engine: TokenizersTokens, request: Request, causes: int, with_text: bool) -> bool:
    """Explain one answer, print what it cost, and tell whether it kept to the aims."""
    ids, text = answered(engine, request, causes)
    said: list[Explanation] = []

    def work() -> None:
        said.append(explain(engine, request, ids, text if with_text else None, engine="llama-server"))

    took = milliseconds(work)
    plain = milliseconds(lambda: engine.render(request))
    last = said[-1]
    if (last.word, len(last.causes)) != ("proven" if causes else "unknown", causes):
        raise RuntimeError(f"{causes} causes: {last.word} {[str(cause) for cause in last.causes]}")
    kept = causes == 0 or (last.renders <= MOST_RENDERS and last.encodes <= MOST_ENCODES)
    print(
        f"{len(ids):6} tokens, {causes} cause{' ' if causes == 1 else 's'}, {'text and IDs' if with_text else 'IDs alone   '}: "
        f"{last.renders:3} renders, {last.encodes} encodes, {took:7.1f} ms = {took / plain:5.1f} plain ({plain:.1f} ms)"
        f"{'' if kept else '  above the aim'}"
    )
    return kept


def main() -> None:
    """Measure and print."""
    engine = TokenizersTokens(QWEN3)
    kept = [
        measure(engine, request_of(sentences), causes, with_text)
        for sentences in (42, 2486)
        for causes in (1, 2, 3, 0)
        for with_text in (True, False)
    ]
    print(
        f"{'all' if all(kept) else 'not all'} within {MOST_RENDERS} renders and {MOST_ENCODES} encodes (medians of {RUNS})"
    )


if __name__ == "__main__":
    main()
