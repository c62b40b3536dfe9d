"""One item's whole check, from the requests of a case to findings; and the recording of goldens."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from . import golden as goldens
from .cases import Case, Expectation, PrefixRule
from .compare import first_divergence
from .config import Config
from .engines.base import Confirmation
from .errors import (
    EngineError,
    EngineUnreachable,
    GoldenError,
    RequestRefused,
    TokenParityError,
    WrongServer,
)
from .findings import (
    BreakGone,
    CallDiffers,
    CountDiffers,
    Difference,
    ExpectationGone,
    Finding,
    GoldenMissing,
    GoldenUnusable,
    Place,
    PrefixBroken,
    Problem,
    RefusalDiffers,
    RequestsChanged,
    StopChanged,
    StopNotOneToken,
    TextDiffers,
    Unreachable,
)
from .golden import Golden, GoldenRequest, Provenance
from .history import History, beside_reference, edited_row, history_of
from .models import CustomEngine, Model
from .neighbours import Neighbours
from .prefix import shared_prefix
from .request import Request, sha256_of_requests
from .why import Explainer, oddities, other_template
from .words import one_line, printable
from .yaml12 import shown

if TYPE_CHECKING:
    from .engines.base import Engine, Rendering, Wait


NOTHING_TOLD = Confirmation()


class Update(Enum):
    """What a run may write."""

    NOTHING = "nothing"
    MISSING = "missing"
    ALL = "all"


@dataclass(frozen=True)
class Outcome:
    """What came of one item.

    No finding and nothing ``unseen``: the engine's IDs were seen and are equal. ``expected`` is the known difference
    that was met. ``unreachable`` is why the engine could not be asked.
    """

    findings: tuple[Finding, ...] = ()
    unseen: tuple[str, ...] = ()
    seen: bool = True
    """Whether anything at all was seen: IDs, a text, a count or a refusal."""
    expected: Expectation | None = None
    expected_at: int | None = None
    """The token at which the known difference stands."""
    unreachable: str | None = None
    golden: Golden | None = None
    golden_path: Path | None = None
    confirmed: str = ""
    """What a real call said: ``confirmed``, ``counted`` (by their number alone), ``differs``, ``cannot``; empty where none
    was made."""
    warnings: tuple[str, ...] = ()
    """What is worth knowing and changes nothing."""
    history: History | None = None
    """What is known of the golden beside its IDs; looked up only where there are findings."""

    @property
    def first_divergence(self) -> int | None:
        """The token at which the engine leaves the golden, in the first request where it does."""
        return next((found.position for found in self.findings if isinstance(found, Difference)), None)


@dataclass
class Checker:
    """Checks items against goldens, and records goldens when it may.

    ``custom`` gives engines of other people's; ``wait`` says how long to wait for servers.
    """

    config: Config
    custom: CustomEngine
    wait: Wait
    update: Update = Update.NOTHING
    confirming: bool = False
    """Whether each engine that can is asked by a real call, which generates one token."""
    written: dict[Path, str] = field(default_factory=dict)
    """What this process did with each golden: ``new``, ``changed`` or ``unchanged``."""
    scope: str = ""
    """The folder whose conftests give engines; empty where one place gives them all."""
    _models: dict[str, Model] = field(default_factory=dict)
    _last: tuple[Path, Golden | None] | None = None
    _why: Explainer = field(default_factory=Explainer)
    _identified: set[tuple[str, str]] = field(default_factory=set)
    """The engines whose template was looked at."""
    _recorders: dict[Path, str] = field(default_factory=dict)
    """Which test recorded a golden of its own, in this process."""

    def model(self, name: str) -> Model:
        """The model of that name; ConfigError if there is none."""
        if name not in self._models:
            self._models[name] = Model(self.config, self.config.model(name), self.custom, self.wait)
        self._models[name].scope = self.scope
        return self._models[name]

    def check(self, case: Case, model_name: str, engine_name: str) -> Outcome:
        """Check one item. What went wrong is in the outcome; nothing that a user can cause is raised."""
        model = self.model(model_name)
        path = goldens.golden_path(self.config.golden_dir, model_name, case.golden_name, case.name)
        recorded: list[Rendering] | None = None
        try:
            if self._may_record(path):
                recorded = self._record(case, model, path)
            golden = self._read(path, case.file, case.name, model_name)
        except GoldenError as error:
            return Outcome((self._unusable(error),), golden_path=path)
        except TokenParityError as error:
            return Outcome((_problem(error, model, model.settings.reference.name),), golden_path=path)
        if golden is None:
            return Outcome((GoldenMissing(shown(path)),), golden_path=path)
        try:
            if recorded is not None and engine_name == model.settings.reference.name:
                renderings = recorded
            else:
                renderings = [model.render(engine_name, request) for request in case.requests]
            outcome = self._compare(case, model, engine_name, golden, renderings)
            if engine_name != model.settings.reference.name and (model_name, engine_name) not in self._identified:
                self._identified.add((model_name, engine_name))
                other = other_template(case, model, engine_name, golden.recorded.template_sha256)
                if other is not None:
                    outcome = replace(outcome, warnings=(other,))
            if self.confirming:
                outcome = self._confirmed(outcome, case, model, engine_name, renderings)
            if engine_name == model.settings.reference.name:
                failing, told = oddities(case, model, renderings)
                if not (outcome.findings or failing) and (edited := self._text_edited(golden, path, model, case)):
                    told.append(edited)
                if failing or told:
                    outcome = replace(outcome, findings=(*outcome.findings, *failing), warnings=tuple(told))
            if recorded is not None and (refusals := self._refusals(golden, path)):
                outcome = replace(outcome, warnings=(*outcome.warnings, refusals))
        except EngineUnreachable as error:
            place = model.settings.engine(engine_name).place
            missing = Unreachable(str(error), place, error.advice)
            return Outcome((missing,), unreachable=missing.headline, golden=golden, golden_path=path)
        except TokenParityError as error:
            return Outcome((_problem(error, model, engine_name),), golden=golden, golden_path=path)
        if not outcome.findings:
            return outcome
        history = history_of(golden, path, model, lambda: self._provenance(model, case.requests))
        if engine_name != model.settings.reference.name:
            history = beside_reference(history, case, model, golden, renderings)
        found = self._why.explained(outcome.findings, case, model, engine_name, renderings, history.of_engine)
        return replace(outcome, findings=found, golden_path=path, history=history)

    def plan(self, asked: Iterable[tuple[Case, str, str]]) -> None:
        """The items that a run will check, in order: servers are sent their requests side by side."""
        plans: dict[tuple[str, str], list[Request]] = {}
        for case, model_name, engine_name in asked:
            plans.setdefault((model_name, engine_name), []).extend(case.requests)
        for (model_name, engine_name), requests in plans.items():
            self.model(model_name).plan(engine_name, requests)

    def _confirmed(
        self, outcome: Outcome, case: Case, model: Model, engine_name: str, renderings: Sequence[Rendering]
    ) -> Outcome:
        """An outcome with what a real call says of each request, where the engine can tell."""
        engine = model.engine(engine_name)
        findings: list[Finding] = []
        told = by_ids = 0
        recorded = outcome.golden.requests if outcome.golden else ()
        for number, (request, rendering) in enumerate(zip(case.requests, renderings, strict=True), 1):
            if rendering.refused is not None:
                continue
            shown, ids, count = "it rendered", rendering.ids, rendering.count
            if ids is None and count is None and outcome.expected is None and number <= len(recorded):
                # An engine that shows no tokens is held to the golden.
                shown, ids = "the golden has", recorded[number - 1].ids
            expected = len(ids) if ids is not None else count
            if expected is None:
                continue
            confirmation = engine.confirm(request)
            if confirmation is None:
                return outcome
            if confirmation == NOTHING_TOLD:
                return replace(outcome, confirmed="cannot")
            told += 1
            by_ids += confirmation.ids is not None and ids is not None
            called = len(confirmation.ids) if confirmation.ids is not None else confirmation.count
            same = confirmation.ids == ids if None not in (confirmation.ids, ids) else called == expected
            if not same:
                place = Place(number, len(renderings), len(request.messages))
                findings.append(CallDiffers(engine_name, place, expected, called or 0, confirmation.how, shown))
        if not told:
            return outcome
        said = "differs" if findings else "confirmed" if by_ids == told else "counted"
        return replace(outcome, findings=(*outcome.findings, *findings), confirmed=said)

    def check_ids(self, name: str, ids: list[int], model_name: str, file: str, folder: str, recorder: str) -> Outcome:
        """Check IDs that a test made itself, in ``golden/<model>/<folder>/<name>.json``; ``recorder`` is that test."""
        model = self.model(model_name)
        path = goldens.golden_path(self.config.golden_dir, model_name, folder, name)

        def provenance() -> Provenance:
            return Provenance(recorder, version("tokenizers"), model.tokenizer_sha256)

        try:
            if self._may_record(path):
                made = Golden(model_name, name, file, provenance(), (GoldenRequest(None, ids),))
                self._may_replace(path, made)
                self._write(path, made, model)
                self._recorders[path] = recorder
            golden = self._read(path, file, name, model_name)
        except GoldenError as error:
            return Outcome((self._unusable(error),), golden_path=path)
        except TokenParityError as error:
            return Outcome((Problem(str(error)),), golden_path=path)
        if golden is None:
            return Outcome((GoldenMissing(shown(path)),), golden_path=path)
        if len(golden.requests) != 1 or golden.requests[0].ids is None:
            return Outcome((RequestsChanged(len(golden.requests), 1),), golden=golden, golden_path=path)
        recorded = golden.requests[0].ids
        position = first_divergence(recorded, ids)
        if position is None:
            return Outcome(golden=golden)
        owner = self._owner(path, golden, recorder)
        if owner is not None:
            return Outcome((GoldenUnusable(_belongs(path, golden, owner), recordable=False),), golden_path=path)
        found = Difference("the test", Place(1, 1, None), recorded, ids, position)
        return Outcome((found,), golden=golden, golden_path=path, history=history_of(golden, path, model, provenance))

    def used_engines(self) -> list[Engine]:
        return [engine for model in self._models.values() for engine in model.used_engines()]

    def close(self) -> None:
        for model in self._models.values():
            model.close()

    # Recording

    def _may_record(self, path: Path) -> bool:
        if self.update is Update.NOTHING or path in self.written:
            return False
        return self.update is Update.ALL or not goldens.is_there(path)

    def _record(self, case: Case, model: Model, path: Path) -> list[Rendering]:
        name = model.settings.reference.name
        try:
            renderings = [model.render(name, request) for request in case.requests]
        except EngineUnreachable as error:
            raise EngineError(f"nothing recorded: {error}") from None
        requests = []
        for request, rendering in zip(case.requests, renderings, strict=True):
            if rendering.ids is None and rendering.refused is None:
                raise EngineError(f"nothing recorded: the reference {name!r} shows no token IDs")
            if rendering.ids is not None and _foreign(rendering, model):
                raise EngineError(
                    f"nothing recorded: by this tokenizer the IDs of {name!r} do not read as the text that it shows: is it "
                    "another model's server, or is `tokenizer:` another model's?"
                )
            requests.append(GoldenRequest(len(request.messages), rendering.ids, rendering.refused))
        stop = {text: ids[0] for text in case.stop if len(ids := model.vocabulary.encode(text)) == 1}
        recorded = self._provenance(model, case.requests)
        self._write(path, Golden(model.settings.name, case.name, case.file, recorded, tuple(requests), stop), model)
        return renderings

    def _write(self, path: Path, golden: Golden, model: Model) -> None:
        try:
            there = goldens.read(path)
        except GoldenError:
            there = None
        if there and there.file != golden.file and goldens.is_file(self.config.folder / there.file):
            raise GoldenError(
                f"{shown(path)}: is the golden of {there.file}, which is still there: rename one of the two files"
            )
        status = goldens.write(path, golden, model.vocabulary)
        self.written[path] = status
        self._last = None

    def _provenance(self, model: Model, requests: Sequence[Request]) -> Provenance:
        reference = model.reference
        found = dict.fromkeys(reference.template_for(request) for request in requests)
        templates = [template for template in found if template is not None]
        template_hash = goldens.template_sha256(templates) if templates else None
        return Provenance(
            reference.version(),
            version("tokenizers"),
            model.tokenizer_sha256,
            template_hash,
            sha256_of_requests(requests),
        )

    # Comparing

    def _unusable(self, error: GoldenError) -> GoldenUnusable:
        """Recording mends a golden that cannot be read; while updating it was the writing that failed."""
        return GoldenUnusable(str(error), recordable=self.update is Update.NOTHING)

    def _refusals(self, golden: Golden, path: Path) -> str | None:
        """What a golden that was just written holds instead of IDs: nobody should have to find that out."""
        refused = [(number, it.refused) for number, it in enumerate(golden.requests, 1) if it.refused is not None]
        if not refused or self.written.get(path) == "unchanged":
            return None
        which = f"request {', '.join(str(number) for number, _ in refused)} is" if len(golden.requests) > 1 else "it is"
        return f"{shown(path)}: {which} recorded as refused: {one_line(refused[0][1])}"

    def _owner(self, path: Path, golden: Golden, recorder: str) -> str | None:
        """Another test whose golden this is: it recorded it in this run, or still stands in the file."""
        in_this_run = self._recorders.get(path, recorder)
        if in_this_run != recorder:
            return in_this_run
        before, prefix = golden.recorded.engine, f"{golden.file}::"
        earlier, now = (name.removeprefix(prefix).partition("[")[0] for name in (before, recorder))
        if earlier == now or not before.startswith(prefix):
            return None
        return before if goldens.defines(self.config.folder / golden.file, earlier) else None

    def _may_replace(self, path: Path, made: Golden) -> None:
        """GoldenError if another test's golden would be overwritten with other IDs."""
        try:
            there = goldens.read(path)
        except GoldenError:  # recording mends it
            return
        if there is None or there.file != made.file or there.requests == made.requests:
            return
        owner = self._owner(path, there, made.recorded.engine)
        if owner is not None:
            raise GoldenError(_belongs(path, there, owner))

    def _text_edited(self, golden: Golden, path: Path, model: Model, case: Case) -> str | None:
        """A row whose text is not that of its IDs, as a warning: the text is for people, the IDs count.

        Looked for only where the tokenizer is loaded anyway, and recorded the golden.
        """
        by_transformers = golden.recorded.engine.startswith("transformers ")
        if model.settings.reference.type != "transformers" or not by_transformers:
            return None
        edited = edited_row(golden, path, model)
        if edited is None or golden.recorded.tokenizer_sha256 != model.tokenizer_sha256:
            return None
        place = f"{shown(path)}:{edited.line}" if edited.line else shown(path)
        item = f"{shown(self.config.folder / case.file)}::{case.name}[{model.settings.name}-{model.settings.reference.name}]"
        return (
            f"{place}: the text says {edited.text!r}, the IDs beside it are {edited.decoded!r}: record it again: "
            f"pytest --tokenparity-update {shlex.quote(item)}"
        )

    def _read(self, path: Path, file: str, case: str, model: str) -> Golden | None:
        if self._last is None or self._last[0] != path:
            self._last = path, goldens.read(path)
        golden = self._last[1]
        if golden is not None and (golden.model, golden.case, golden.file) != (model, case, file):
            raise GoldenError(
                f"{shown(path)}: is the golden of {golden.file}::{golden.case} for {golden.model}, not of "
                f"{file}::{case} for {model}: was it copied or moved? Record it again"
            )
        return golden

    def _compare(
        self, case: Case, model: Model, engine: str, golden: Golden, renderings: Sequence[Rendering]
    ) -> Outcome:
        findings: list[Finding] = []
        unseen: list[str] = []
        if len(golden.requests) != len(case.requests):
            findings.append(RequestsChanged(len(golden.requests), len(case.requests)))
        else:
            rows = zip(case.requests, golden.requests, renderings, strict=True)
            for number, (request, recorded, rendering) in enumerate(rows, 1):
                place = Place(number, len(renderings), len(request.messages))
                unseen += _unseen(rendering)
                found, without = _difference(engine, place, recorded, rendering, model, request)
                findings += [found] if found is not None else []
                unseen += [without] if without is not None else []
        expectation = case.expectation(model.settings.name, engine)
        met, met_at = None, None
        if expectation is not None:
            differing = bool(findings) and not isinstance(findings[0], RequestsChanged)
            unmet = self._why.unmet(expectation, findings, case, model, engine, renderings) if differing else ()
            if differing and not unmet:
                met = expectation
                met_at = next((found.position for found in findings if isinstance(found, Difference)), None)
                findings = []
            elif differing:
                findings = list(unmet)
            elif not findings:
                findings.append(
                    ExpectationGone(engine, expectation, model.settings.name if len(case.models) > 1 else None)
                )
        findings += _prefix_findings(case.prefix_for(model.settings.name), case.requests, renderings)
        findings += _stop_findings(case, golden, model)
        seen = any(_saw(rendering) for rendering in renderings)
        return Outcome(tuple(findings), tuple(dict.fromkeys(unseen)), seen, met, met_at, golden=golden)


def _foreign(rendering: Rendering, model: Model) -> bool:
    """Whether a server's IDs are another vocabulary's than the model's: a golden of theirs could not be read."""
    if not rendering.text or not model.reference.concurrency:  # no server
        return False
    from .causes.distance import reads_otherwise

    return reads_otherwise(model.vocabulary.text(rendering.ids or ()), rendering.text)


def _problem(error: TokenParityError, model: Model, engine: str) -> Problem:
    """What kept a check from being made; where a server is the wrong one, with the place that names it."""
    if isinstance(error, WrongServer):
        return Problem(str(error), model.settings.engine(engine).place, error.advice)
    return Problem(str(error))


def _belongs(path: Path, golden: Golden, owner: str) -> str:
    return (
        f"{shown(path)}: golden {golden.case!r} belongs to {printable(owner)}: use another name, or delete the file if "
        "that test does not use it any more"
    )


def _saw(rendering: Rendering) -> bool:
    return any(part is not None for part in (rendering.ids, rendering.text, rendering.count, rendering.refused))


def _unseen(rendering: Rendering) -> tuple[str, ...]:
    """What an engine did not show; one that shows no IDs did not show them, whether it says so or not."""
    if rendering.unseen or rendering.ids is not None or rendering.refused is not None:
        return rendering.unseen
    return ("it shows no token IDs",)


def _difference(
    engine: str, place: Place, recorded: GoldenRequest, rendering: Rendering, model: Model, request: Request
) -> tuple[Finding | None, str | None]:
    """What of a rendering is not the golden's, and what could not be compared."""
    if recorded.refused is not None or rendering.refused is not None:
        if recorded.refused is not None and rendering.refused is not None:
            return None, None
        by_engine = rendering.refused is not None
        message = rendering.refused if rendering.refused is not None else recorded.refused
        assert message is not None
        ids = recorded.ids if by_engine else rendering.ids
        own = engine == model.settings.reference.name
        return RefusalDiffers(engine, place, message, by_engine, own, None if ids is None else len(ids)), None
    assert recorded.ids is not None
    if rendering.ids is not None:
        position = first_divergence(recorded.ids, rendering.ids)
        return (None if position is None else Difference(engine, place, recorded.ids, rendering.ids, position)), None
    found, without = _text_difference(engine, place, rendering, model, request)
    if found is None and rendering.count is not None and rendering.count != len(recorded.ids):
        return CountDiffers(engine, place, len(recorded.ids), rendering.count), None
    return found, without


def _text_difference(
    engine: str, place: Place, rendering: Rendering, model: Model, request: Request
) -> tuple[Finding | None, str | None]:
    """What of the text alone is not the reference's, and why it could not be compared."""
    if rendering.text is None:
        return None, None
    try:
        expected = model.reference.text(request)
    except RequestRefused:
        return None, "its text is not compared: the reference refuses the request now"
    except EngineError:
        return None, "its text is not compared: the reference shows none"
    position = first_divergence(expected, rendering.text)
    return (None if position is None else TextDiffers(engine, place, expected, rendering.text, position)), None


def _prefix_findings(rule: PrefixRule, requests: Sequence[Request], renderings: Sequence[Rendering]) -> list[Finding]:
    if not rule.check or len(requests) < 2:
        return []
    findings: list[Finding] = []
    documented = {known.at: known for known in rule.breaks}
    met: set[int] = set()
    earlier: tuple[Place, list[int]] | None = None
    for number, (request, rendering) in enumerate(zip(requests, renderings, strict=True), 1):
        if rendering.ids is None:  # refused, or not shown: the cache holds what was rendered before
            continue
        place = Place(number, len(requests), len(request.messages))
        if earlier is not None:
            position = shared_prefix(earlier[1], rendering.ids)
            if position < len(earlier[1]) and position in documented:
                met.add(position)
            elif position < len(earlier[1]) - rule.tail:
                found = PrefixBroken(
                    earlier[0], place, earlier[1], rendering.ids, position, tuple(documented), rule.tail
                )
                findings.append(found)
        earlier = place, rendering.ids
    if all(rendering.ids is not None or rendering.refused is not None for rendering in renderings):
        findings += [BreakGone(known) for at, known in documented.items() if at not in met]
    return findings


def _stop_findings(case: Case, golden: Golden, model: Model) -> list[Finding]:
    findings: list[Finding] = []
    for text in case.stop:
        ids = model.vocabulary.encode(text)
        if len(ids) != 1:
            findings.append(StopNotOneToken(text, ids))
        elif golden.stop.get(text) != ids[0]:
            findings.append(StopChanged(text, golden.stop.get(text), ids[0]))
    return findings


def orphans(config: Config, cases_of: Mapping[str, frozenset[tuple[str, str]] | None]) -> list[Path]:
    """The goldens that nothing declares any more.

    ``cases_of`` gives for each case file that is there its (case, model) pairs, or None where the file is broken: a
    broken file's goldens are no orphans, nor are those that a test made, or that another configuration declares.
    """
    found = []
    others = Neighbours(config)
    for path, model, case, file in goldens.listed(config.golden_dir):
        if file.endswith(".py"):
            continue
        if file not in cases_of:
            # With a model that this configuration never had it is another project's, in a folder that both share.
            gone = model in config.models
        else:
            declared = cases_of[file]
            gone = declared is not None and (case, model) not in declared
        if gone and not others.declare(file, case, model):
            found.append(path)
    return found
