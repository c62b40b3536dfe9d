"""Why an item's findings are there: each explained by the reference, and known differences held to what they declare."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .cases import Case, Expectation
from .errors import TokenParityError
from .findings import CountDiffers, Difference, Finding, Place, PrefixBroken, RefusalDiffers, RequestOdd, TextDiffers
from .golden import template_sha256
from .models import Model

if TYPE_CHECKING:
    from .causes.explanation import Explanation
    from .causes.sessions import BreakExplanation
    from .engines.base import Rendering

_MOST = 3  # findings of one item that are explained: the others have the same cause, or wait for the first to be mended


class Explainer:
    """Explains what engines rendered; remembers which causes were proven of an engine, for these are likely again."""

    def __init__(self) -> None:
        self._proven: dict[tuple[str, str], set[str]] = {}

    def explained(
        self,
        findings: Sequence[Finding],
        case: Case,
        model: Model,
        engine: str,
        renderings: Sequence[Rendering],
        of_engine: bool,
    ) -> tuple[Finding, ...]:
        """The findings with the reason why; of the golden's only where the engine leaves today's reference too."""
        found = []
        for number, finding in enumerate(findings):
            if number < _MOST and isinstance(finding, (Difference, TextDiffers, RefusalDiffers)):
                if of_engine:
                    why = finding.why or self._explain(finding, case, model, engine, renderings)
                    finding = replace(finding, why=why)
            elif number < _MOST and isinstance(finding, PrefixBroken):
                finding = replace(finding, why=_break(finding, case, model))
            found.append(finding)
        return tuple(found)

    def unmet(
        self,
        expectation: Expectation,
        findings: Sequence[Finding],
        case: Case,
        model: Model,
        engine: str,
        renderings: Sequence[Rendering],
    ) -> tuple[Finding, ...]:
        """The findings of an item that do not hold what ``expect`` declares; nothing where all do.

        It holds where each request that differs is rendered by the reference under exactly the declared causes, and each
        declared cause is needed in at least one.
        """
        if expectation.is_unknown:
            return ()
        from .causes.explanation import holds

        needed: set[str] = set()
        failing = []
        for finding in findings:
            used = None
            if isinstance(finding, (Difference, TextDiffers, RefusalDiffers)) and not _refused(finding):
                index = finding.place.number - 1
                rendering = renderings[index]
                used = holds(
                    model.reference,
                    case.requests[index],
                    rendering.ids,
                    rendering.text,
                    expectation.differs,
                    engine=model.settings.engine(engine).type,
                    template=_template(model, engine, case, index),
                )
            if used is None:
                failing.append(finding)
            else:
                needed |= used
        if not failing:
            idle = [str(cause) for cause in expectation.differs if not cause.keys <= needed]
            if not idle:
                return ()
            return tuple(_with(finding, f"{', '.join(idle)} is not needed any more") for finding in findings)
        found = [
            self._explain(finding, case, model, engine, renderings)
            if number < _MOST and isinstance(finding, (Difference, TextDiffers, RefusalDiffers))
            else None
            for number, finding in enumerate(failing)
        ]
        # What another request needs is needed, whatever this one does.
        holding = [cause for cause in expectation.differs if cause.keys & needed]
        elsewhere = {cause.name for cause in holding} | {name for why in found if why for name in why.names}
        return tuple(
            _with(finding, _says(expectation, why, elsewhere), why, tuple(cause.name for cause in holding))
            for finding, why in zip(failing, found, strict=True)
        )

    def _explain(
        self,
        finding: Difference | TextDiffers | RefusalDiffers,
        case: Case,
        model: Model,
        engine: str,
        renderings: Sequence[Rendering],
    ) -> Explanation | None:
        if _refused(finding):
            return None
        from .causes.explanation import explain

        index = finding.place.number - 1
        rendering = renderings[index]
        proven = self._proven.setdefault((model.settings.name, engine), set())
        try:
            why = explain(
                model.reference,
                case.requests[index],
                rendering.ids,
                rendering.text,
                engine=model.settings.engine(engine).type,
                template=_template(model, engine, case, index),
                known=proven,
            )
        except TokenParityError:  # the reference cannot be asked any more: the finding stands without a reason
            return None
        if why.word == "proven":
            proven.update(why.names)
        return None if why.word == "equal" else why


def oddities(case: Case, model: Model, renderings: Sequence[Rendering]) -> tuple[list[Finding], list[str]]:
    """What is odd in the requests of a case, as the reference renders them: what fails, and what is only worth knowing."""
    from .causes.alone import remarks

    failing: list[Finding] = []
    told: dict[tuple[str, str | None], str] = {}
    for number, (request, rendering) in enumerate(zip(case.requests, renderings, strict=True), 1):
        place = Place(number, len(renderings), len(request.messages))
        for remark in remarks(model.reference, request, rendering.ids, control_tokens=case.control_tokens):
            if remark.fails:
                failing.append(RequestOdd(place, remark.message))
            else:  # a session repeats its turns
                told.setdefault((remark.name, remark.where), f"{place.lead}{remark.message}")
    return failing, list(told.values())


def other_template(case: Case, model: Model, engine: str, recorded: str | None) -> str | None:
    """What to say of a server that shows another chat template than the reference renders with.

    ``recorded`` is the hash that the golden keeps: where it is that of the server's, the reference need not be loaded.
    """
    request = case.requests[0]
    try:
        theirs = model.engine(engine).template_for(request)
        if recorded is None or theirs is None or template_sha256([theirs]) == recorded:
            return None
        ours = model.reference.template_for(request)
    except TokenParityError:
        return None
    if ours is None or theirs.strip() == ours.strip():
        return None
    return (
        f"the server of {engine} carries another chat template than the reference's: {len(theirs):,} against "
        f"{len(ours):,} characters"
    )


def _break(finding: PrefixBroken, case: Case, model: Model) -> BreakExplanation | None:
    from .causes.sessions import explain_break

    earlier, later = (case.requests[place.number - 1] for place in (finding.earlier_place, finding.later_place))
    try:
        return explain_break(model.reference, earlier, later, finding.earlier, finding.later)
    except TokenParityError:  # the reference cannot be asked
        return None


def _refused(finding: Finding) -> bool:
    return isinstance(finding, RefusalDiffers) and finding.refused_by_engine


def _template(model: Model, engine: str, case: Case, index: int) -> str | None:
    """The chat template that an engine shows; None where it shows none."""
    try:
        return model.engine(engine).template_for(case.requests[index])
    except TokenParityError:
        return None


def _says(expectation: Expectation, why: Explanation | None, elsewhere: Collection[str]) -> str:
    """What is more than ``expect`` declares, or no longer needed, in this request and ``elsewhere`` in the case."""
    if why is None or why.word in ("unknown", "in part"):
        return "the declared causes do not explain all of it"
    declared = {cause.name for cause in expectation.differs}
    idle = sorted(declared - set(why.names) - set(elsewhere))
    more = [str(cause) for cause in why.causes if cause.name not in declared]
    parts = [f"{', '.join(idle)} is not needed any more"] if idle else []
    parts += [f"more differs: {'; '.join(more)}"] if more else []
    return ", and ".join(parts) or f"its parameters are others: {'; '.join(map(str, why.causes))}"


def _with(finding: Finding, says: str, why: Explanation | None = None, needed: tuple[str, ...] = ()) -> Finding:
    if isinstance(finding, (Difference, TextDiffers, RefusalDiffers)):
        return replace(finding, unexpected=says, why=why, needed=needed)
    if isinstance(finding, CountDiffers):
        return replace(finding, unexpected="a count alone cannot show the declared causes")
    return finding
