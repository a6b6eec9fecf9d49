"""The recordings of a robot as its identification sees them: outlines here, samples wherever the tasks run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, cast

from ros2_dynid.fleet.fingerprint import fingerprint
from ros2_dynid.fleet.map_recording import Failed, Outcome, Question, answer, outline_elsewhere
from ros2_dynid.fleet.parts import Change, Source
from ros2_dynid.identification.estimators.fit import informed
from ros2_dynid.identification.preparation import Filter, PreparationOptions, Prepared
from ros2_dynid.identification.preparation.elsewhere import Distant
from ros2_dynid.identification.validation.row_evidence import RowEvidence, row_evidence
from ros2_dynid.identification.validation.sampled_motion import motion_samples
from ros2_dynid.model.robot import Robot
from ros2_dynid.recording.reading import Reading

T = TypeVar("T")
Map = Callable[[Callable[..., object], Sequence[object]], list[object]]
"""Maps a function over arguments, in this process or over a cluster."""


def here(function: Callable[..., object], arguments: Sequence[object]) -> list[object]:
    """Map in this process."""
    return [function(argument) for argument in arguments]


class Recordings:
    """The recordings of one robot by place; outcomes: of those that were mapped, whose answers are known."""

    def __init__(self, sources: Mapping[str, Source], outcomes: Mapping[str, Outcome], run: Map = here) -> None:
        """Keep what is known; `run` asks for the rest."""
        self._sources, self._outcomes, self._run = sources, outcomes, run
        self._prints: dict[int, tuple[Robot, bool]] = {}

    def distant(self, places: Sequence[str]) -> list[Distant]:
        """Return recordings for `pipeline.identify`."""
        return [Distant(self, place) for place in places]

    def prepare(
        self,
        robot: Robot,
        recordings: Sequence[Distant],
        options: PreparationOptions,
        reading: Reading,
        filters: Filter | None,
    ) -> list[Prepared]:
        """Return outlines; those of the map are known."""
        sources = [self._sources[one.name].prepared_with(options, reading, filters) for one in recordings]
        known = [self._outcome(source) for source in sources]
        asked = [source for source, outcome in zip(sources, known, strict=True) if outcome is None]
        found = iter(_results(self._run(outline_elsewhere, asked)) if asked else [])
        outlines = [cast(Prepared, next(found)) if one is None else one.outline for one in known]
        return [replace(one, elsewhere=There(self, source)) for one, source in zip(outlines, sources, strict=True)]

    def ask(
        self, function: Callable[..., object], prepared: Sequence[Prepared], each: Sequence[object] | None
    ) -> list[object]:
        """Return the answers to a question about recordings."""
        questions = []
        for k, one in enumerate(prepared):
            where = one.elsewhere
            assert isinstance(where, There)
            extra = () if each is None else (each[k],)
            questions.append(Question(where.source, replace(one, elsewhere=None), where.changes, function, extra))
        known = [self._known(question) for question in questions]
        asked = [question for question, answer_ in zip(questions, known, strict=True) if answer_ is None]
        found = iter(_results(self._run(answer, asked)) if asked else [])
        return [next(found) if one is None else one for one in known]

    def _outcome(self, source: Source) -> Outcome | None:
        first = self._sources[source.place]
        same = source.filters is None and source.options == first.options and source.reading == first.reading
        return self._outcomes.get(source.place) if same else None

    def _known(self, question: Question) -> object | None:
        """Return what the map has found already: with plain friction, of recordings that nothing changed."""
        function = question.function
        outcome = self._outcome(question.source)
        if outcome is None or question.changes or not isinstance(function, partial):
            return None
        layout = outcome.information.layout
        if function.func is informed:
            robot, _, _, asked, terms, every = function.args
            same = asked == layout and not terms and every == 1 and self._same(question, robot)
            return outcome.information if same else None
        if function.func is motion_samples:
            (stride,) = function.args
            return outcome.motion.thinned(stride) if outcome.motion.stride <= stride else None
        if function.func is row_evidence:
            robot, _, terms, delay, _, stride = function.args
            kept = outcome.rows.pictured
            if terms or delay != bool(layout.n_delay) or kept.stride > stride or not self._same(question, robot):
                return None
            return RowEvidence(kept.thinned(stride), outcome.rows.successive if question.extra == (True,) else None)
        return None

    def _same(self, question: Question, robot: Robot) -> bool:
        """Return whether rows of that robot are those of the map: torque sensors that were found make others."""
        mapped = question.source.robot
        if robot is not mapped and id(robot) not in self._prints:
            self._prints[id(robot)] = robot, fingerprint(robot) == fingerprint(mapped)
        return robot is mapped or self._prints[id(robot)][1]


@dataclass(frozen=True)
class There:
    """Where the samples of an outline are."""

    recordings: Recordings
    source: Source
    changes: tuple[Change, ...] = ()

    def over(
        self, function: Callable[..., T], prepared: Sequence[Prepared], each: Sequence[object] | None = None
    ) -> list[T]:
        """Ask all of them."""
        return cast("list[T]", self.recordings.ask(function, prepared, each))

    def later(self, change: Callable[[Prepared], Prepared], *, same_rows: bool) -> There:
        """Return the same with one more change."""
        return replace(self, changes=(*self.changes, Change(change, same_rows)))


def _results(answers: Sequence[object]) -> list[object]:
    """Return the answers, or raise the first error among them."""
    for one in answers:
        if isinstance(one, Failed):
            raise one.error()
    return list(answers)
