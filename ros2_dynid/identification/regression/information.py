# SPDX-License-Identifier: Apache-2.0

"""What a recording says about the base parameters: R factors of [W tau], for each joint and each block of time.

Everything later (weights, estimates, error bars, cross-validation, essential parameters) is computed from these small
triangles, never from the rows again, so memory does not grow with the recording. Joint j does not feel the links before
it: its triangle holds only the columns that it feels. Recordings are combined by putting their blocks together.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqrf

from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation.repetition import Repetition
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.model.robot import Array

STRETCH_BLOCKS = 8
"""Blocks, and stretches of them, that are joined to longer ones for the folds of a cross-validation."""
BLOCKS = 30
"""Blocks of time for each recording: enough for an error bar, long enough to be nearly independent of each other."""
FOLDS = 5
"""Stretches of a cross-validation that nobody asked for.

Each fit keeps four fifths of the data, so it is close to the model that is judged, and each stretch is long enough (six
of a recording's thirty blocks) to hold motion that the rest has not.
"""
PENDING_ROWS = 1000
"""Rows of a joint that wait for their R factor at least: few factorisations, and still in the cache."""


@dataclass(frozen=True, eq=False)
class Block:
    """One stretch of time: R[j], upper trapezoid with k_j + 1 columns, with R^T R = [W_j tau_j]^T [W_j tau_j].

    rows: number of rows of each joint, shape (n,); start, end [s]; recording: its number; resting: rows of joints that
    stand still among them, all joints together. motion: number of a motion that several recordings have, and the time
    of the block's start in it [s]; None where a recording's motion is its own.
    still: rows of joints that stand still, beside those of R until `with_standstill` gives them their weight; moving:
    after that, the rows in motion alone, which torque errors are counted in. None where no joint stands still.
    """

    R: tuple[Array, ...]
    rows: NDArray[np.int64]
    start: float
    end: float
    recording: int = 0
    resting: int = 0
    motion: tuple[int, float] | None = None
    still: Block | None = None
    moving: Block | None = None


@dataclass(frozen=True, eq=False)
class Information:
    """Blocks of R factors; columns[j]: places, in the layout, of the k_j columns of W that joint j feels.

    phases: the same rows in blocks of the period of motions that repeat, for their error bars; empty where none does.
    part_of: where the blocks were taken from, with their numbers there, if they were. joint_triangles: R factors of
    each joint over all blocks, where they are known already.
    """

    blocks: tuple[Block, ...]
    columns: tuple[NDArray[np.intp], ...]
    layout: ColumnLayout
    phases: tuple[Block, ...] = ()
    part_of: tuple[Information, tuple[int, ...]] | None = None
    joint_triangles: tuple[Array, ...] | None = None

    @property
    def size(self) -> int:
        """Number of columns of W."""
        return self.layout.size

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.columns)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Rows of each joint, shape (n,)."""
        return np.asarray(self.block_rows.sum(axis=0), dtype=np.int64)

    @cached_property
    def block_rows(self) -> NDArray[np.int64]:
        """Rows of each block and joint, shape (blocks, n)."""
        if self.part_of is not None:
            whole, places = self.part_of
            return whole.block_rows[list(places)]
        return np.array([block.rows for block in self.blocks], dtype=np.int64).reshape(len(self.blocks), self.n)

    def take(self, chosen: Iterable[int] | None) -> Information:
        """Return the information of the blocks with these numbers, None: all; phases are those of all blocks only."""
        if chosen is None:
            return self
        numbers = list(chosen)
        if numbers == list(range(len(self.blocks))):
            return self
        whole, places = self.part_of or (self, None)
        taken = tuple(numbers if places is None else map(places.__getitem__, numbers))
        blocks = tuple(map(self.blocks.__getitem__, numbers))
        in_order = all(map(operator.lt, taken, taken[1:]))  # and each once
        part_of = (whole, taken) if in_order else None
        return Information(blocks, self.columns, self.layout, part_of=part_of)

    def split(self, fold: Collection[int]) -> tuple[Information, Information]:
        """Return the information of all blocks but those with these numbers, and of these."""
        return self.take(k for k in range(len(self.blocks)) if k not in fold), self.take(sorted(fold))

    def in_motion(self) -> Information:
        """Return the same without rows of joints that stand still, whose friction no model predicts."""
        return self._in_motion if any(block.moving for block in self.blocks) else self

    @cached_property
    def _in_motion(self) -> Information:
        return Information(tuple(block.moving or block for block in self.blocks), self.columns, self.layout)

    @cached_property
    def recordings(self) -> dict[int, Information]:
        """The information of each recording, by its number."""
        own: dict[int, list[Block]] = {}
        for block in self.blocks:
            own.setdefault(block.recording, []).append(block)
        return {number: Information(tuple(blocks), self.columns, self.layout) for number, blocks in own.items()}

    def of_joints(self, joints: Sequence[int]) -> Information:
        """Return the information of some joints' rows, by their numbers from 0; blocks of time only."""
        chosen = list(joints)
        blocks = tuple(
            replace(b, R=tuple(b.R[k] for k in chosen), rows=b.rows[chosen], resting=0, still=None, moving=None)
            for b in self.blocks
        )
        columns = tuple(self.columns[k] for k in chosen)
        return Information(blocks, columns, self.layout, joint_triangles=tuple(map(self.triangle, chosen)))

    @cached_property
    def _triangles(self) -> tuple[Array, ...]:
        if self.joint_triangles is not None:
            return self.joint_triangles
        whole, places = self.part_of or (self, tuple(range(len(self.blocks))))
        return _joined([whole._stretch(level, at) for level, at in _stretches(places)])

    @cached_property
    def _joined_stretches(self) -> dict[tuple[int, int], tuple[Array, ...]]:
        return {}

    def _stretch(self, level: int, at: int) -> tuple[Array, ...]:
        """Return the R factors of the blocks of a stretch (see _stretches): many folds share them."""
        if level == 0:
            return self.blocks[at].R
        joined = self._joined_stretches
        if (level, at) not in joined:
            joined[level, at] = _joined(
                [self._stretch(level - 1, STRETCH_BLOCKS * at + k) for k in range(STRETCH_BLOCKS)]
            )
        return joined[level, at]

    def triangle(self, joint: int) -> Array:
        """Return the R factor of [W_j tau_j] over all blocks, at most k_j + 1 rows."""
        return self._triangles[joint]


def _joined(parts: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Return the R factors of each joint's [W_j tau_j] over several stretches of time."""
    return tuple(compressed(np.vstack(own)) for own in zip(*parts, strict=True))


def _stretches(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return numbers as few stretches (level, at), in their order: L numbers from at L on, L = STRETCH_BLOCKS^level."""
    stretches, k = [], 0
    while k < len(numbers):
        level, length = 0, 1
        while numbers[k] % (STRETCH_BLOCKS * length) == 0 and _runs_on(numbers, k, STRETCH_BLOCKS * length):
            level, length = level + 1, STRETCH_BLOCKS * length
        stretches.append((level, numbers[k] // length))
        k += length
    return stretches


def _runs_on(numbers: Sequence[int], k: int, count: int) -> bool:
    """Return whether numbers from the k-th on count up `count` times."""
    last = k + count - 1
    return last < len(numbers) and numbers[last] - numbers[k] == count - 1


def combine(parts: Sequence[Information], repetitions: Sequence[Repetition | None] = ()) -> Information:
    """Return the information of several recordings of one robot together; repetitions: which have another's motion."""
    first = parts[0]
    for part in parts[1:]:
        same = part.layout == first.layout and part.n == first.n
        if not same or any(not np.array_equal(a, b) for a, b in zip(part.columns, first.columns, strict=True)):
            raise InputError("the recordings are of different robots", "identify each with its own robot")
    shift, blocks, phases = 0, [], []
    for part, repetition in itertools.zip_longest(parts, repetitions):
        blocks += [_shifted(block, shift, repetition) for block in part.blocks]
        phases += [_shifted(block, shift, repetition) for block in part.phases or part.blocks]
        shift = 1 + max(block.recording for block in blocks[-len(part.blocks) :])
    some = any(part.phases for part in parts)
    return Information(tuple(blocks), first.columns, first.layout, tuple(phases) if some else ())


def _shifted(block: Block, shift: int, repetition: Repetition | None) -> Block:
    """Return the block of a recording with a higher number, at its time in the motion that it repeats, if it does."""
    motion = block.motion if repetition is None else (repetition.motion, repetition.motion_time(block.start))
    return replace(block, recording=block.recording + shift, motion=motion)


def coarser(information: Information, most: int) -> Information:
    """Return the information with neighbouring blocks of each recording joined, so that about `most` are left."""
    recordings: dict[int, list[int]] = {}
    for k, block in enumerate(information.blocks):
        recordings.setdefault(block.recording, []).append(k)
    length = -(-len(information.blocks) // max(most, 1))
    if length < 2:
        return information
    blocks = tuple(
        join_blocks([information.blocks[k] for k in own[first : first + length]])
        for own in recordings.values()
        for first in range(0, len(own), length)
    )
    return Information(blocks, information.columns, information.layout, information.phases)


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Return neighbouring blocks as one."""
    rows, first = np.sum([block.rows for block in blocks], axis=0), blocks[0]
    R = _joined([block.R for block in blocks])
    return replace(first, R=R, rows=rows, end=blocks[-1].end, resting=0, still=None, moving=None)


def compressed(A: Array, *, overwrite: bool = False) -> Array:
    """Return R, upper triangular with as many columns as A, with R^T R = A^T A; A itself if it has no more rows.

    overwrite: A is not needed any more.
    """
    k = A.shape[1]
    if len(A) <= k:
        return A
    factored, _, _, info = dgeqrf(A, lwork=64 * k, overwrite_a=overwrite)
    if info != 0:
        raise ValueError(f"dgeqrf: argument {-info} has an illegal value")
    return np.asarray(np.where(_upper(k), factored[:k], 0.0))


@cache
def _upper(k: int) -> NDArray[np.bool_]:
    return np.triu(np.ones((k, k), dtype=bool))


def decompose(A: Array) -> tuple[Array, Array, Array]:
    """Return U, s, V^T with A = U diag(s) V^T.

    LAPACK's fast driver does not converge for a few matrices that lack rank; its older one, by QR, does.
    """
    try:
        return np.linalg.svd(A, full_matrices=False)
    except np.linalg.LinAlgError:
        U, s, Vt = scipy.linalg.svd(A, full_matrices=False, lapack_driver="gesvd")
        return U, s, Vt


def pseudo_inverse(A: Array, tolerance: float) -> Array:
    """Return A^+; singular values up to `tolerance` of the largest count as zero."""
    U, s, Vt = decompose(A)
    kept = s > tolerance * s.max(initial=0.0)
    return np.asarray((Vt[kept].T / s[kept]) @ U[:, kept].T)


def _stacked(parts: Sequence[Array]) -> Array:
    """Return the R factor of rows in parts that are not needed any more."""
    return compressed(parts[0] if len(parts) == 1 else np.vstack(parts), overwrite=True)


def restrict(
    information: Information, kept: Sequence[int], layout: ColumnLayout | None = None, value: Array | None = None
) -> Information:
    """Return the information with only the columns `kept`, numbered anew in their order, of this layout.

    value: of the other columns, by number, whose torque is taken off; None: they are left out as if they were zero.
    """
    place = {int(k): i for i, k in enumerate(kept)}
    columns = [np.array([place[int(c)] for c in old if int(c) in place], dtype=np.intp) for old in information.columns]

    def kept_columns(R: Array, old: NDArray[np.intp]) -> Array:
        stay = np.array([*(int(c) in place for c in old), True])
        few = R[:, stay]
        if value is not None:
            few[:, -1] -= R[:, ~stay] @ value[old[~stay[:-1]]]
        return compressed(few)

    return each_triangle(information, kept_columns, columns, layout or ColumnLayout(len(kept)))


def select_friction(information: Information, chosen: Sequence[int], coefficients: Array | None = None) -> Information:
    """Return the information with these columns of friction terms alone, by their number among them.

    coefficients: of all of them, shape (f,); the torque of the other columns is taken off. None: they are left out.
    """
    layout, value = information.layout, None
    if coefficients is not None:
        value = np.zeros(layout.size)
        value[layout.friction] = coefficients
    terms = range(layout.friction.start, layout.friction.stop)
    dropped = set(terms) - {terms[k] for k in chosen}
    kept = [k for k in range(layout.size) if k not in dropped]
    return restrict(information, kept, replace(layout, n_friction=len(chosen)), value)


def each_triangle(
    information: Information,
    change: Callable[[Array, NDArray[np.intp]], Array],
    columns: Sequence[NDArray[np.intp]],
    layout: ColumnLayout,
) -> Information:
    """Return the information with every R factor, by time and by phase, changed: change(R_j, its old columns)."""

    def changed(block: Block) -> Block:
        R = tuple(change(R, old) for R, old in zip(block.R, information.columns, strict=True))
        return replace(block, R=R, still=None, moving=None if block.moving is None else changed(block.moving))

    blocks, phases = (tuple(map(changed, some)) for some in (information.blocks, information.phases))
    return Information(blocks, tuple(columns), layout, phases)


def block_length(n_rows: int, n_blocks: int = BLOCKS) -> int:
    """Return the rows of each joint in a block: row number k is of block k // length."""
    return max(1, -(-n_rows // max(1, n_blocks)))


def different_motion(information: Information) -> Information:
    """Return the same rows in blocks that do not repeat each other's motion: of the period where a motion repeats."""
    if not information.phases:
        return information
    return Information(information.phases, information.columns, information.layout)


def number_by_size(information: Information) -> Information:
    """Return the same rows with recordings numbered by their size, so that folds do not depend on the order given.

    Motions that several recordings have are numbered by the smallest of those.
    """
    size: dict[int, tuple[int, float]] = {}
    for block in information.blocks:
        rows, square = size.get(block.recording, (0, 0.0))
        square += sum(float(R[:, -1] @ R[:, -1]) for R in block.R)
        size[block.recording] = (rows + int(block.rows.sum()), square)
    rank = {recording: k for k, recording in enumerate(sorted(size, key=size.__getitem__))}
    motions: dict[int, int] = {}
    for block in information.blocks:
        if block.motion is not None:
            number = block.motion[0]
            motions[number] = min(motions.get(number, rank[block.recording]), rank[block.recording])
    blocks = (
        replace(
            block,
            recording=rank[block.recording],
            motion=None if block.motion is None else (motions[block.motion[0]], block.motion[1]),
        )
        for block in information.blocks
    )
    return replace(information, blocks=tuple(blocks), joint_triangles=None)


def block_folds(information: Information, count: int) -> list[list[int]]:
    """Return the blocks of each fold: contiguous stretches of time with about the same number of rows in motion.

    A motion that several recordings have is left out in the same stretches of all of them. At most `count` folds, none
    of them empty; none at all if there are fewer than two blocks with rows.
    """
    places = [block.motion or (block.recording, block.start) for block in information.blocks]
    order = np.array(sorted(range(len(places)), key=places.__getitem__), dtype=np.intp)
    resting = np.array([block.resting for block in information.blocks])
    rows = (information.block_rows.sum(axis=1) - resting).astype(float)[order]
    count = min(count, int(np.count_nonzero(rows)))
    if count < 2:
        return []
    middle = (np.cumsum(rows) - 0.5 * rows) / rows.sum()
    fold = np.minimum((middle * count).astype(int), count - 1)
    return [blocks for f in range(count) if (blocks := np.sort(order[fold == f]).tolist())]


def gather(
    chunks: Iterable[Rows],
    dependence: NDArray[np.bool_],
    n_rows: int,
    layout: ColumnLayout | None = None,
    *,
    n_blocks: int = BLOCKS,
    weight: Callable[[Rows], Array] | None = None,
    on_chunk: Callable[[float], None] | None = None,
    period: float | None = None,
) -> Information:
    """Return the information of chunks of rows: n_rows for each joint in all, in n_blocks equal stretches of time.

    dependence: shape (n, size), True where the torque of a joint depends on a column of W; layout: of these columns
    (None: all base parameters); weight: factor of each row, shape (n, m); on_chunk: called with the fraction done, and
    may raise to stop.
    period: of the motion [s] if it repeats: its rows are kept by phase as well.
    """
    columns = tuple(np.flatnonzero(row) for row in dependence)
    layout = layout or ColumnLayout(dependence.shape[1])
    length = block_length(n_rows, n_blocks)
    moving, resting = _Collected(columns), _Collected(columns)
    blocks: list[Block] = []
    done, in_block, start, end, at_rest = 0, 0, 0.0, 0.0, False

    def close() -> None:
        nonlocal in_block
        if in_block:
            blocks.append(moving.block(start, end, resting))
        in_block = 0

    by_phase = None if period is None else _Phases(columns, n_blocks, period)
    for chunk in chunks:
        factor = None if weight is None else weight(chunk)
        stands, at_rest = (None, False) if factor is not None else _standing(chunk, at_rest)
        at, m = 0, len(chunk.t)
        while at < m:
            take = min(m - at, length - in_block)
            part = slice(at, at + take)
            if in_block == 0:
                start = float(chunk.t[at])
            end = float(chunk.t[at + take - 1])
            moving.take(chunk, part, chunk.keep, factor)
            if stands is not None:
                resting.take(chunk, part, stands)
            at, in_block, done = at + take, in_block + take, done + take
            if in_block == length:
                close()
        if by_phase is not None:
            by_phase.take(chunk, factor, stands)
        if on_chunk is not None:
            on_chunk(done / max(1, n_rows))
    close()
    return Information(tuple(blocks), columns, layout, () if by_phase is None else by_phase.blocks())


def _standing(chunk: Rows, at_rest: bool) -> tuple[NDArray[np.bool_] | None, bool]:
    """Return which rows of joints that stand still count, shape (n, m) or None, and whether all stand still at the end.

    A pause of the whole robot says the same thing all the time: its first row counts. at_rest: as the chunk begins.
    """
    if chunk.still is None or not chunk.still.any():
        return None, False
    pause: NDArray[np.bool_] = np.asarray(chunk.still.all(axis=0))
    before = np.append(at_rest, pause[:-1])
    return np.asarray(chunk.still & ~(pause & before)), bool(pause[-1])


class _Collected:
    """Rows of the joints on their way to a block, factored whenever many wait."""

    def __init__(self, columns: Sequence[NDArray[np.intp]]) -> None:
        self._columns = columns
        self._clear()

    def _clear(self) -> None:
        self._pending: list[list[Array]] = [[] for _ in self._columns]
        self._rows = np.zeros(len(self._columns), dtype=np.int64)

    def take(self, chunk: Rows, part: slice, which: NDArray[np.bool_], factor: Array | None = None) -> None:
        """Add the rows of a part of a chunk that are marked in `which`, shape (n, m)."""
        for j, own in enumerate(self._columns):
            chosen = which[j, part]
            if not chosen.any():
                continue
            A = _joint_rows(chunk, j, own, part, chosen, factor)
            self._rows[j] += len(A)
            pending = self._pending[j]
            pending.append(A)
            if sum(map(len, pending)) > max(8 * A.shape[1], PENDING_ROWS):
                self._pending[j] = [_stacked(pending)]

    def block(self, start: float, end: float, resting: _Collected | None = None) -> Block:
        """Return the block of what was taken, and begin anew; resting: rows of joints that stand still."""
        R = tuple(
            _stacked(parts) if parts else np.empty((0, len(own) + 1))
            for parts, own in zip(self._pending, self._columns, strict=True)
        )
        rows, still = self._rows, None if resting is None else resting.block(start, end)
        self._clear()
        return Block(R, rows, start, end, still=still if still is not None and still.rows.any() else None)


class _Phases:
    """Rows by the phase of a motion that repeats: as many blocks as there are of time."""

    def __init__(self, columns: Sequence[NDArray[np.intp]], n_blocks: int, period: float) -> None:
        self._moving = [_Collected(columns) for _ in range(n_blocks)]
        self._resting = [_Collected(columns) for _ in range(n_blocks)]
        self._met = np.zeros(n_blocks, dtype=bool)
        self._period = period

    def take(self, chunk: Rows, factor: Array | None, stands: NDArray[np.bool_] | None) -> None:
        """Add the rows of a chunk, each to the block of its phase."""
        places = phase_of(chunk.t, self._period, len(self._met))
        edges = [0, *(np.flatnonzero(np.diff(places)) + 1), len(places)]
        for start, stop in itertools.pairwise(edges):
            place, part = places[start], slice(int(start), int(stop))
            self._met[place] = True
            self._moving[place].take(chunk, part, chunk.keep, factor)
            if stands is not None:
                self._resting[place].take(chunk, part, stands)

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks that have rows; start and end are phases [s]."""
        width = self._period / len(self._met)
        return tuple(
            self._moving[k].block(k * width, (k + 1) * width, self._resting[k]) for k in np.flatnonzero(self._met)
        )


def phase_of(t: Array, period: float, n_blocks: int = BLOCKS) -> NDArray[np.intp]:
    """Return the number of the block of phase, of n_blocks, that times t [s] are of."""
    return np.asarray(np.minimum((t % period) / period * n_blocks, n_blocks - 1), dtype=np.intp)


def _joint_rows(
    chunk: Rows, j: int, columns: NDArray[np.intp], part: slice, chosen: NDArray[np.bool_], factor: Array | None
) -> Array:
    """Return [W_j tau_j] of the rows chosen, shape (chosen, k_j + 1), column-major."""
    A = np.empty((len(columns) + 1, part.stop - part.start))
    chunk.W[:, j, part].take(columns, axis=0, out=A[:-1], mode="clip")
    A[-1] = chunk.tau[j, part]
    if factor is not None:
        A *= factor[j, part]
    return A.T if chosen.all() else A[:, chosen].T
