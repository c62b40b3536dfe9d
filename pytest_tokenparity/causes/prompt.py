"""What a prompt is made from, layer by layer, and changes to each layer: the ground on which causes are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..chat_template import TemplateEnvironment
from ..errors import EngineError, RequestRefused
from ..request import Request
from .encoding import Encoder, Encoding

if TYPE_CHECKING:
    from ..engines.tokenizers import TokenizersTokens
    from ..vocabulary import Vocabulary


class Layer(IntEnum):
    """The steps from a request to IDs, in the order in which changes are applied."""

    REQUEST = 1
    ENVIRONMENT = 2
    TEXT = 3
    ENCODING = 4
    IDS = 5


@dataclass
class Body:
    """A request that may be changed: its own lists and mappings."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    template_kwargs: dict[str, Any]
    add_generation_prompt: bool
    continue_final_message: bool
    appended: str = ""
    """Text that stands after what the template renders."""

    @classmethod
    def of(cls, request: Request) -> Body:
        own = request.copy()
        tools = None if own.tools is None else [dict(tool) for tool in own.tools]
        return cls(
            [dict(message) for message in own.messages],
            tools,
            dict(own.template_kwargs),
            own.add_generation_prompt,
            own.continue_final_message,
        )

    @property
    def request(self) -> Request:
        return Request(
            self.messages,
            self.tools,
            self.template_kwargs,
            self.add_generation_prompt,
            self.continue_final_message,
        )


@dataclass(frozen=True)
class Change:
    """One named change of one layer; two changes of the same cause and parameter are the same change.

    ``apply`` takes and changes a :class:`Body` (request), or takes and gives a TemplateEnvironment, a text or an Encoding;
    for the layer of IDs it takes and gives a list. ``paths`` are the fields it touches. ``evidence``: what the engine
    shows speaks for it. ``copied``: its parameter was read off the engine's answer, so that it proves less.
    """

    cause: str
    parameter: str
    layer: Layer
    apply: Callable[[Any], Any] = field(compare=False)
    paths: tuple[str, ...] = field(default=(), compare=False)
    evidence: bool = field(default=True, compare=False)
    copied: bool = field(default=False, compare=False)
    order: int = field(default=0, compare=False)
    """Its place among the changes of its layer."""


Changes = frozenset[Change]
NONE: Changes = frozenset()


@dataclass(frozen=True)
class Answer:
    """What an engine showed: IDs (None where it shows only a text), its text, and whether that was decoded from the IDs."""

    ids: list[int] | None
    text: str
    decoded: bool = False


class Prompts:
    """One request, rendered under any changes; each rendering and each encoding is made once and counted."""

    def __init__(
        self,
        engine: TokenizersTokens,
        vocabulary: Vocabulary,
        request: Request,
        ids: Sequence[int] | None,
        text: str | None,
    ) -> None:
        self.engine = engine
        self.vocabulary = vocabulary
        self.request = request
        self.encoder = Encoder(engine.files)
        self.answer = Answer(
            None if ids is None else list(ids),
            text if text is not None else vocabulary.text(ids or []),
            decoded=text is None,
        )
        self.renders = 0
        self._texts: dict[Changes, str | None] = {}

    @property
    def encodes(self) -> int:
        return self.encoder.calls

    def body(self, changes: Iterable[Change]) -> Body:
        body = Body.of(self.request)
        for change in _ordered(changes, Layer.REQUEST):
            change.apply(body)
        return body

    def environment(self, changes: Iterable[Change]) -> TemplateEnvironment:
        environment = self.engine.environment
        for change in _ordered(changes, Layer.ENVIRONMENT):
            environment = change.apply(environment)
        return environment

    def text(self, changes: Changes) -> str | None:
        """The prompt's text under changes, those of IDs and encodings set aside; None if the template refuses it."""
        changes = frozenset(change for change in changes if change.layer <= Layer.TEXT)
        if changes not in self._texts:
            self._texts[changes] = self._render(changes)
        return self._texts[changes]

    def ids(self, changes: Changes) -> list[int] | None:
        """The IDs under changes; None if the template refuses the request."""
        text = self.text(changes)
        if text is None:
            return None
        encoding = Encoding()
        for change in _ordered(changes, Layer.ENCODING):
            encoding = change.apply(encoding)
        ids = self.encoder.encode(text, encoding)
        for change in _ordered(changes, Layer.IDS):
            ids = change.apply(ids)
        return ids

    def refusal(self) -> str | None:
        """The message with which the template refuses the unchanged request."""
        try:
            self.engine.text(self.request)
        except RequestRefused as refused:
            return str(refused)
        return None

    @cached_property
    def target(self) -> str:
        """The engine's text, BOS set aside."""
        return self.bare(self.answer.text)

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The engine's text, and what it is without an EOS that may have been appended."""
        eos = self.engine.files.eos
        if not eos or not self.target.endswith(eos):
            return (self.target,)
        return self.target, self.target[: -len(eos)]

    def bare(self, text: str) -> str:
        """A text without BOS before it."""
        bos = self.engine.files.bos
        while bos and text.startswith(bos):
            text = text[len(bos) :]
        return text

    def matches(self, text: str | None) -> bool:
        """Whether a text is the engine's, BOS and an appended EOS set aside."""
        return text is not None and self.bare(text) in self.targets

    def _render(self, changes: Changes) -> str | None:
        self.renders += 1
        body = self.body(changes)
        try:
            environment = replace(self.environment(changes), lenient=not body.messages)
            text = self.engine.compose(body.request, environment) + body.appended
        except RequestRefused:
            return None
        except EngineError:
            if environment.template is None:
                raise
            return None  # the template that an engine shows is none for jinja2
        for change in _ordered(changes, Layer.TEXT):
            text = change.apply(text)
        return text


def _ordered(changes: Iterable[Change], layer: Layer) -> list[Change]:
    return sorted(
        (change for change in changes if change.layer is layer),
        key=lambda change: (change.order, change.cause, change.parameter),
    )
