"""What a check can find wrong, each as data with one line that says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .cases import DocumentedBreak, Expectation
from .words import one_line

if TYPE_CHECKING:
    from .causes.explanation import Explanation
    from .causes.sessions import BreakExplanation

_MOST = 1000  # characters of a message that comes from elsewhere


@dataclass(frozen=True)
class Place:
    """Which request of a case: its number from 1, how many there are, and how many messages it holds."""

    number: int
    of: int
    messages: int | None

    @property
    def lead(self) -> str:
        """``request 2 (4 messages): ``, or nothing for a case of one request."""
        return "" if self.of == 1 else f"{self}: "

    def __str__(self) -> str:
        return f"request {self.number} ({self.messages} message{'' if self.messages == 1 else 's'})"


@dataclass(frozen=True)
class Difference:
    """An engine's IDs are not the golden's; they part at ``position``, counted from 0.

    ``why`` is the reason, where it was looked for; ``unexpected`` says how it is not the known difference.
    """

    engine: str
    place: Place
    golden: list[int]
    rendered: list[int]
    position: int
    why: Explanation | None = None
    unexpected: str = ""
    needed: tuple[str, ...] = ()
    """Declared causes that hold in other requests of the case."""

    @property
    def headline(self) -> str:
        counts = f"{_tokens(len(self.golden))} recorded, {len(self.rendered)} rendered"
        found = f"{self.place.lead}{self.engine} leaves the golden at token {self.position} ({counts})"
        return found + _unexpected(self.unexpected)


@dataclass(frozen=True)
class CountDiffers:
    """An engine that shows only a number of tokens shows another one than the golden's."""

    engine: str
    place: Place
    golden: int
    counted: int
    unexpected: str = ""

    @property
    def headline(self) -> str:
        found = f"{self.place.lead}{self.engine} counts {_tokens(self.counted)}, the golden has {self.golden}"
        return found + _unexpected(self.unexpected)


@dataclass(frozen=True)
class TextDiffers:
    """An engine that shows only text shows another one than the reference."""

    engine: str
    place: Place
    reference: str
    rendered: str
    position: int
    why: Explanation | None = None
    unexpected: str = ""
    needed: tuple[str, ...] = ()
    """Declared causes that hold in other requests of the case."""

    @property
    def headline(self) -> str:
        found = f"{self.place.lead}{self.engine} leaves the reference's text at character {self.position}"
        return found + _unexpected(self.unexpected)


@dataclass(frozen=True)
class RefusalDiffers:
    """One side renders the request, the other refuses it; ``message`` is the refusal."""

    engine: str
    place: Place
    message: str
    refused_by_engine: bool
    is_reference: bool = False
    tokens: int | None = None
    """How many tokens the side that renders the request has."""
    why: Explanation | None = None
    unexpected: str = ""
    needed: tuple[str, ...] = ()
    """Declared causes that hold in other requests of the case."""

    @property
    def headline(self) -> str:
        who, message = f"{self.place.lead}{self.engine}", one_line(self.message) + _unexpected(self.unexpected)
        tokens = _tokens(self.tokens or 0)
        if self.is_reference and self.refused_by_engine:
            return f"{who} now refuses a request whose golden has {tokens}: {message}"
        if self.is_reference:
            return f"{who} now renders a request ({tokens}) whose golden is a refusal: {message}"
        if self.refused_by_engine:
            return f"{who} refuses a request that the reference renders: {message}"
        return f"{who} renders a request that the reference refuses: {message}"


@dataclass(frozen=True)
class PrefixBroken:
    """A later request does not repeat an earlier one's leading tokens."""

    earlier_place: Place
    later_place: Place
    earlier: list[int]
    later: list[int]
    position: int
    documented: tuple[int, ...] = ()
    """The tokens at which the case documents other breaks."""
    tail: int = 0
    """What tail the case allows."""
    why: BreakExplanation | None = None
    """What the later request changed, where it was looked for."""

    @property
    def headline(self) -> str:
        again = len(self.later) - self.position
        return (
            f"{self.later_place} leaves {self.earlier_place} at token {self.position} of {len(self.earlier)}: "
            f"{_tokens(self.position)} reused, {again} computed again"
        )


@dataclass(frozen=True)
class BreakGone:
    """A documented prefix break is not there any more."""

    documented: DocumentedBreak

    @property
    def headline(self) -> str:
        return f"no prefix break at token {self.documented.at} any more: remove it from `prefix` ({self.documented.reason})"


@dataclass(frozen=True)
class ExpectationGone:
    """A known difference is not there any more."""

    engine: str
    expectation: Expectation
    model: str | None = None
    """The model, where the case runs on several."""

    @property
    def headline(self) -> str:
        if self.model is not None:
            return (
                f"{self.engine} does not differ from the golden of {self.model}: remove the expectation at "
                f"{self.expectation.place}, or say of which model it holds (MODEL/{self.engine})"
            )
        return f"{self.engine} no longer differs from the golden: remove the expectation at {self.expectation.place}"


@dataclass(frozen=True)
class RequestsChanged:
    """The case makes another number of requests than its golden holds."""

    golden: int
    case: int

    @property
    def headline(self) -> str:
        return f"the golden holds {_requests(self.golden)}, the case now makes {_requests(self.case)}: record it again"


@dataclass(frozen=True)
class GoldenMissing:
    """There is no golden yet."""

    path: str

    @property
    def headline(self) -> str:
        return f"no golden yet: {self.path} is not there"


@dataclass(frozen=True)
class StopNotOneToken:
    """A stop string is several tokens of the model: some engines drop it, others compare it with their text."""

    stop: str
    ids: list[int]

    @property
    def headline(self) -> str:
        return f"the stop string {self.stop!r} is {len(self.ids)} tokens of the model, not one: {self.ids}"


@dataclass(frozen=True)
class StopChanged:
    """A stop string has another token ID than the golden recorded; ``recorded`` None: it was not recorded."""

    stop: str
    recorded: int | None
    now: int

    @property
    def headline(self) -> str:
        if self.recorded is None:
            return f"the stop string {self.stop!r} (token {self.now}) is not in the golden: record it again"
        return f"the stop string {self.stop!r} is token {self.now}, the golden recorded {self.recorded}"


@dataclass(frozen=True)
class CallDiffers:
    """A real call was given another prompt than the one that the engine showed for the same request."""

    engine: str
    place: Place
    rendered: int
    called: int
    how: str
    shown: str = "it rendered"
    """Where the number of ``rendered`` tokens is from."""

    @property
    def headline(self) -> str:
        if self.rendered == self.called:
            return f"{self.place.lead}a call of {self.engine} was given other IDs than it rendered ({self.how})"
        return (
            f"{self.place.lead}a call of {self.engine} was given {_tokens(self.called)} ({self.how}), {self.shown} "
            f"{self.rendered}"
        )


@dataclass(frozen=True)
class RequestOdd:
    """Something is wrong with a request itself, whatever engine renders it, such as a prompt with two BOS."""

    place: Place
    message: str

    @property
    def headline(self) -> str:
        return f"{self.place.lead}{self.message}"


@dataclass(frozen=True)
class GoldenUnusable:
    """A golden file is there and cannot be used, or cannot be written; ``recordable`` says that recording mends it."""

    message: str
    recordable: bool = True

    @property
    def headline(self) -> str:
        return one_line(self.message, _MOST)


@dataclass(frozen=True)
class Unreachable:
    """An engine cannot be reached; ``place`` is where the configuration names it, ``advice`` what to do."""

    message: str
    place: str
    advice: str = ""

    @property
    def headline(self) -> str:
        return one_line(self.message, _MOST) or "an engine cannot be reached; it does not say why"


@dataclass(frozen=True)
class Problem:
    """Something that kept the check from being made: settings, a server, a file."""

    message: str
    place: str | None = None
    """Where the configuration names a server that is the wrong one."""
    advice: str = ""
    """What to do there, where it is not the address."""

    @property
    def headline(self) -> str:
        return one_line(self.message, _MOST) or "an error that says nothing of itself"


Finding = (
    Difference
    | CountDiffers
    | TextDiffers
    | RefusalDiffers
    | PrefixBroken
    | BreakGone
    | ExpectationGone
    | RequestsChanged
    | GoldenMissing
    | StopNotOneToken
    | StopChanged
    | RequestOdd
    | CallDiffers
    | GoldenUnusable
    | Unreachable
    | Problem
)


def _unexpected(says: str) -> str:
    return f", otherwise than `expect` says: {says}" if says else ""


def _tokens(count: int) -> str:
    return f"{count} token{'' if count == 1 else 's'}"


def _requests(count: int) -> str:
    return f"{count} request{'' if count == 1 else 's'}"
