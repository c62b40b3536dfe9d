"""The answer to why: an explanation that the reference itself proves."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

from ..chat_template import Conventions
from ..compare import first_divergence
from ..engines.base import Engine, token_ids
from ..engines.tokenizers import TokenizerFiles, TokenizersTokens
from ..errors import EngineError, InvalidConversation
from ..messages import assert_text
from ..request import Request
from .distance import reads_otherwise
from .prompt import NONE, Change, Changes, Prompts
from .search import Found, Search
from .table import CAUSES
from .where import field_at

_LISTS = ("tools-dropped", "vocabulary-differs", "text-as-special", "tool-json-format")
"""Causes of which one change has several parameters."""

_AROUND = 12  # characters shown on either side of what is not explained

Word = Literal["equal", "proven", "in part", "likely", "unknown"]


@dataclass(frozen=True)
class NamedCause:
    """A cause that was found: its name, its parameters, a sentence about the reference, what to do, the fields it touches."""

    name: str
    parameters: tuple[str, ...]
    sentence: str
    fix: str
    where: tuple[str, ...]

    def __str__(self) -> str:
        given = [parameter for parameter in self.parameters if parameter]
        return f"{self.name}: {', '.join(given)}" if given else self.name


@dataclass(frozen=True)
class Explanation:
    """Why an engine's answer to one request is not the reference's.

    ``word``: ``proven`` (under ``causes`` the reference renders exactly the engine's IDs), ``in part`` (the causes bring
    it nearer, ``rest`` words are unexplained), ``likely`` (exact, but by a chain that proves little, or seen in a text
    alone), ``unknown``, or ``equal``. ``where`` is the field that the causes touch, or that of the first difference.
    ``also`` are other causes that would be as exact. ``text_equal``: the texts are equal (BOS and EOS set aside), so that
    the cause lies in the encoding. ``decoded``: the engine showed no text, that of its IDs was used. ``refused`` is the
    message with which the reference refuses the request as it is. ``note`` says why nothing could be explained.
    """

    word: Word
    causes: tuple[NamedCause, ...] = ()
    where: str | None = None
    also: tuple[NamedCause, ...] = ()
    rest: int = 0
    rest_where: str | None = None
    text_equal: bool = False
    decoded: bool = False
    refused: str | None = None
    note: str | None = None
    parted: tuple[str, str] | None = None
    """What is not explained, with some characters around it: the reference's text under the causes, and the engine's."""
    spent: bool = False
    """Whether the search ended before all was tried, for the prompt is long."""
    tokens: int | None = None
    renders: int = 0
    encodes: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the causes."""
        return tuple(cause.name for cause in self.causes)

    def __str__(self) -> str:
        if self.note:
            return f"{self.word}, not looked for: {self.note}"
        named = f" {', '.join(map(str, self.causes))}" if self.causes else ""
        return f"{self.word}{named}" + (f" at {self.where}" if self.where else "")


def explain(
    reference: Engine,
    request: Request,
    ids: Sequence[int] | None,
    text: str | None = None,
    *,
    engine: str | None = None,
    template: str | None = None,
    expected: Sequence[int] | None = None,
    known: Collection[str] = (),
) -> Explanation:
    """Why ``ids`` (and ``text``, where the engine shows it) are not what ``reference`` renders of ``request``.

    ``reference`` is a :class:`TransformersTokens` or a :class:`TokenizersTokens`: causes are tried by Jinja2 and
    `tokenizers`, after it was shown that these give the reference's own IDs. ``engine`` is the type of the engine that
    answered, such as ``llama-server``: what it is known to do is preferred. ``template`` is the chat template that the
    engine shows; ``expected`` are the reference's IDs, where they are known already; ``known`` are causes that were
    proven of this engine before. EngineError if the reference cannot render at all, or ``ids`` are none; TypeError if
    ``request`` is no :class:`Request`.
    """
    if not isinstance(request, Request):
        raise TypeError(f"explain takes a Request, such as Request(conversation, tools), not {type(request).__name__}")
    if ids is not None:
        ids = token_ids(ids, "the answer to explain")
        if not ids:
            return Explanation("unknown", note="the answer holds no token")
    if not (text is None or isinstance(text, str)):
        raise TypeError(f"text must be a string or None, not {type(text).__name__}")
    malformed = _malformed(request)
    if malformed is not None:
        return Explanation("unknown", note=f"the request is malformed: {malformed}")
    prompts, note = prompts_for(reference, request, ids, text, expected)
    if prompts is None:
        return Explanation("unknown", note=note)
    own = prompts.text(NONE)
    if own is not None and ids is not None and prompts.ids(NONE) == list(ids):
        return Explanation("equal", tokens=len(ids), renders=prompts.renders, encodes=prompts.encodes)
    found = Search(prompts, engine, other_template(prompts, template), known).run()
    return _explanation(prompts, found)


@dataclass(frozen=True)
class DeclaredCause:
    """A cause that ``expect`` names, and its parameters where it gives them."""

    name: str
    parameters: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """What must be needed for it: the cause, or each of its parameters."""
        return frozenset(f"{self.name}: {it}" for it in self.parameters) or frozenset((self.name,))

    def covers(self, change: Change) -> bool:
        return change.cause == self.name and (not self.parameters or bool(self._given(change)))

    def used(self, change: Change) -> frozenset[str]:
        """Which of the keys a change is."""
        return frozenset(f"{self.name}: {it}" for it in self._given(change)) if self.parameters else self.keys

    def _given(self, change: Change) -> tuple[str, ...]:
        """The parameters that mean this change: its own, or each of its list; where a field stands may be left out."""
        whole = change.parameter
        forms: list[tuple[str, ...]] = [(whole,)]
        if change.cause == "tool-field-added":
            forms.append((re.sub(r", (in place|at the end)\Z", "", whole),))
        elif change.cause in _LISTS:
            forms.append(tuple(whole.split(", ")))
        return next((form for form in forms if all(it in self.parameters for it in form)), ())

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(self.parameters)}" if self.parameters else self.name


def holds(
    reference: Engine,
    request: Request,
    ids: Sequence[int] | None,
    text: str | None,
    declared: Sequence[DeclaredCause],
    *,
    engine: str | None = None,
    template: str | None = None,
) -> frozenset[str] | None:
    """Whether the reference renders an engine's answer under the declared causes alone.

    The keys of those that are needed for it; None if it does not hold.
    """
    prompts, _ = prompts_for(reference, request, ids, text)
    if prompts is None:
        return None

    def allowed(change: Change) -> bool:
        return any(cause.covers(change) for cause in declared)

    found = Search(prompts, engine, other_template(prompts, template), allowed=allowed).run()
    if not (found.exact or (found.text_equal and ids is None)):
        return None
    covered = [(cause, change) for change in found.changes for cause in declared if cause.covers(change)]
    return frozenset(key for cause, change in covered for key in cause.used(change))


def prompts_for(
    reference: Engine,
    request: Request,
    ids: Sequence[int] | None,
    text: str | None = None,
    expected: Sequence[int] | None = None,
) -> tuple[Prompts | None, str | None]:
    """The ground for explaining one answer, or the reason why there is none."""
    direct = direct_engine(reference)
    if direct is None:
        return (
            None,
            f"the reference {reference.name!r} cannot be asked under changes: only transformers and tokenizers can",
        )
    if ids is None and text is None:
        return None, "the engine shows neither IDs nor a text"
    prompts = Prompts(direct, direct.files.vocabulary, request, ids, text)
    ours = prompts.ids(NONE)
    theirs = list(expected) if expected is not None else reference.render(request).ids
    if ours != theirs:
        return None, "jinja2 and tokenizers alone do not give the reference's own IDs, so nothing can be proven by them"
    if _foreign(prompts):
        return None, (
            "by this tokenizer its IDs do not read as the text that it shows: is it another model's server, or is "
            "`tokenizer:` another model's?"
        )
    return prompts, None


def _malformed(request: Request) -> str | None:
    """What of a request no chat API takes, and changes could not be made to."""
    try:
        for value in (list(request.messages), request.tools):
            assert_text(value, with_nul=True)
    except (InvalidConversation, TypeError) as error:
        return str(error)
    for index, message in enumerate(request.messages):
        if not isinstance(message, Mapping):
            return f"messages[{index}] is no mapping"
        calls = message.get("tool_calls")
        if not (calls is None or (isinstance(calls, (list, tuple)) and all(isinstance(it, Mapping) for it in calls))):
            return f"messages[{index}].tool_calls is no list of mappings"
    if not all(isinstance(tool, Mapping) for tool in request.tools or ()):
        return "tools is no list of mappings"
    return None


def other_template(prompts: Prompts, template: str | None) -> str | None:
    """The template that an engine shows, if it is another than the reference's."""
    if template is None:
        return None
    try:
        own = prompts.engine.template_for(prompts.request)
    except EngineError:
        return template
    return None if template.strip() == own.strip() else template


def named(changes: Collection[Change]) -> tuple[NamedCause, ...]:
    """Changes by their causes, those of one cause together."""
    groups: dict[str, list[Change]] = {}
    # what is taken away by its place has a negative order, the last first: it is named in the order of the request
    for change in sorted(changes, key=lambda it: (it.layer, abs(it.order), it.cause, it.parameter)):
        groups.setdefault(change.cause, []).append(change)
    return tuple(
        NamedCause(
            name,
            tuple(change.parameter for change in group),
            CAUSES[name].sentence(_listed(group)),
            CAUSES[name].advice([change.parameter for change in group]),
            tuple(dict.fromkeys(path for change in group for path in change.paths)),
        )
        for name, group in groups.items()
    )


_DIRECT: WeakKeyDictionary[Engine, TokenizersTokens | None] = WeakKeyDictionary()


def direct_engine(reference: Engine) -> TokenizersTokens | None:
    """The reference as Jinja2 and `tokenizers` alone; None for an engine of another kind."""
    if isinstance(reference, TokenizersTokens):
        return reference
    if reference not in _DIRECT:
        _DIRECT[reference] = _direct(reference)
    return _DIRECT[reference]


def _direct(reference: Engine) -> TokenizersTokens | None:
    if type(reference).__name__ != "TransformersTokens":  # importing it would load transformers
        return None
    from ..engines.transformers import TransformersTokens, conventions

    if not isinstance(reference, TransformersTokens):
        return None
    files = TokenizerFiles.of_transformers(reference.tokenizer)
    if files is None:
        return None
    made: Callable[..., TokenizersTokens] = TokenizersTokens
    known: Conventions = conventions()
    return made(files, name=reference.name, template=reference.template, clock=reference.clock, conventions=known)


def _explanation(prompts: Prompts, found: Found) -> Explanation:
    own = prompts.text(NONE)
    word: Word = "unknown"
    if found.exact:
        word = "likely" if found.unlikely else "proven"
    elif found.text_equal and prompts.answer.ids is None:
        word = "likely"
    elif found.changes:
        word = "in part"
    causes = named(found.changes)
    where = _where(prompts, causes)
    rest_where = parted = None
    if not found.exact and not found.text_equal:
        rest_where = _first_difference(prompts, found.changes)
        where = where or rest_where
        parted = _parted(prompts, found.changes)
    return Explanation(
        word,
        causes,
        where,
        tuple(cause for cause in named(found.also) if cause.name not in {it.name for it in causes}),
        found.rest,
        rest_where,
        prompts.matches(own),
        prompts.answer.decoded,
        prompts.refusal() if own is None else None,
        parted=parted,
        spent=found.spent and not found.exact,
        tokens=None if prompts.answer.ids is None else len(prompts.answer.ids),
        renders=prompts.renders,
        encodes=prompts.encodes,
    )


def _where(prompts: Prompts, causes: Sequence[NamedCause]) -> str | None:
    """Of the fields that the causes touch the one where the prompts part first."""
    paths = list(dict.fromkeys(path for cause in causes for path in cause.where))
    if len(paths) < 2:
        return paths[0] if paths else None
    first = _first_difference(prompts, NONE)
    before = re.match(r"template text before (messages|tools)\[", first or "")
    if before and all(path.startswith(("messages[", "tools[")) for path in paths):
        paths = [path for path in paths if path.startswith(f"{before[1]}[")] or paths
    return max(paths, key=lambda path: _shared(path, first or ""))


def _shared(path: str, other: str) -> int:
    """How many leading steps two paths share."""
    steps, others = (re.findall(r"[^.\[\]]+", it) for it in (path, other))
    return next(
        (at for at, pair in enumerate(zip(steps, others, strict=False)) if len({*pair}) > 1),
        min(len(steps), len(others)),
    )


def _first_difference(prompts: Prompts, changes: Changes) -> str | None:
    """The field of the first character that the changes do not explain."""
    text = prompts.text(changes)
    if text is None:
        return None
    bare = prompts.bare(text)
    position = first_divergence(bare, prompts.target)
    return None if position is None else field_at(prompts, text.find(bare) + position, changes)


def _parted(prompts: Prompts, changes: Changes) -> tuple[str, str] | None:
    """Where the texts part until they are one again, with what stands around it."""
    text = prompts.text(changes)
    if text is None:
        return None
    ours, theirs = prompts.bare(text), prompts.target
    start = first_divergence(ours, theirs)
    if start is None:
        return None
    behind = first_divergence(ours[start:][::-1], theirs[start:][::-1]) or 0
    start, behind = max(0, start - _AROUND), max(0, behind - _AROUND)
    return ours[start : len(ours) - behind], theirs[start : len(theirs) - behind]


def _foreign(prompts: Prompts) -> bool:
    """Whether an engine's IDs, read by this tokenizer, are another text than the one that it shows."""
    if not prompts.answer.ids or prompts.answer.decoded:
        return False

    def foreign(ids: Sequence[int] | None, text: str | None) -> bool:
        return reads_otherwise(prompts.bare(prompts.vocabulary.text(ids or ())), prompts.bare(text or ""))

    # a tokenizer that rewrites its text reads its own IDs otherwise, too
    own = foreign(prompts.ids(NONE), prompts.text(NONE))
    return not own and foreign(prompts.answer.ids, prompts.answer.text)


def _listed(group: Sequence[Change]) -> Any:
    parameters = [change.parameter for change in group]
    return parameters[0] if len(parameters) == 1 else ", ".join(parameters)
