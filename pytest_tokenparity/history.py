"""What became of a golden since it was recorded: what it depends on, whether it was edited, whether it still holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import golden as goldens
from .cases import Case
from .errors import TokenParityError
from .golden import Golden, Provenance
from .models import Model

if TYPE_CHECKING:
    from .engines.base import Rendering


@dataclass(frozen=True)
class History:
    """What became of a golden since it was recorded.

    ``changed`` names what it depends on that is not the same any more; ``unknown`` says why that could not be told.
    ``edited`` is a row whose IDs do not decode to the text beside them. ``reference_agrees``: whether the reference still
    renders the golden; None where it was not asked.
    """

    changed: tuple[str, ...] = ()
    other_tokenizer: bool = False
    unknown: str | None = None
    edited: Edited | None = None
    reference_agrees: bool | None = None
    of_engine: bool = False
    """Whether an engine leaves what the reference renders today: what changed since is not why."""
    tokenizer_place: str = ""
    """Where the configuration names a tokenizer that changed."""


@dataclass(frozen=True)
class Edited:
    """A row of a golden that was changed by hand: its line in the file, what its IDs decode to, what stands there."""

    line: int | None
    decoded: str
    text: str


def history_of(golden: Golden, path: Path, model: Model, now: Callable[[], Provenance]) -> History:
    """What became of a golden; ``now`` gives the provenance that it would have today."""
    recorded = golden.recorded
    try:
        current = now()
    except TokenParityError as error:
        return History(unknown=str(error))
    changed = []
    if recorded.request_sha256 != current.request_sha256:
        changed.append("the request was edited")
    then, now_engine = (str(it.engine).partition(" ")[0] for it in (recorded, current))
    if then != now_engine and recorded.request_sha256 is not None:
        changed.append(f"the reference became another engine ({recorded.engine} -> {current.engine})")
    elif recorded.template_sha256 != current.template_sha256:
        changed.append(f"the template changed ({_moved(recorded.template_sha256, current.template_sha256)})")
    if recorded.tokenizer_sha256 != current.tokenizer_sha256:
        changed.append(f"the tokenizer changed ({_moved(recorded.tokenizer_sha256, current.tokenizer_sha256)})")
        return History(tuple(changed), other_tokenizer=True, tokenizer_place=model.settings.places["tokenizer"])
    return History(tuple(changed), edited=edited_row(golden, path, model))


def beside_reference(
    history: History, case: Case, model: Model, golden: Golden, rendered: Sequence[Rendering]
) -> History:
    """The history for an engine that is not the reference: whether the reference still renders the golden, or what the
    engine rendered."""
    try:
        today = [model.render(model.settings.reference.name, request) for request in case.requests]
    except TokenParityError:  # it cannot be asked
        return history
    agrees = _same([(it.ids, it.refused) for it in golden.requests], today)
    of_engine = not _same([(it.ids, it.refused) for it in rendered], today)
    # A golden that the reference still renders has right IDs: what was edited is not why this engine differs.
    return replace(history, reference_agrees=agrees, of_engine=of_engine, edited=None if agrees else history.edited)


def _same(known: Sequence[tuple[list[int] | None, str | None]], today: Sequence[Rendering]) -> bool:
    if len(known) != len(today):
        return False
    pairs = zip(known, today, strict=True)
    return all(ids == now.ids and (refused is None) == (now.refused is None) for (ids, refused), now in pairs)


def edited_row(golden: Golden, path: Path, model: Model) -> Edited | None:
    """The first row whose IDs do not decode to the text beside them."""
    for ids, text in golden.texts:
        decoded = model.vocabulary.text(ids)
        if decoded != text:
            return Edited(goldens.line_of(path, ids, text), decoded, text)
    return None


def _moved(then: str | None, now: str | None) -> str:
    return f"{then[:8] if then else 'none'} -> {now[:8] if now else 'none'}"
