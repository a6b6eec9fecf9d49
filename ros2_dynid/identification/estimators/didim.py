# SPDX-License-Identifier: Apache-2.0

"""DIDIM (Gautier, Janot and Vandanjon, 2013): the closed loop is simulated, and its torque compared with the measured.

Under its controller the simulated robot follows the reference almost whatever the parameters are. So the derivative of
its torque by the parameters is the regressor along the simulated motion, and a Gauss-Newton step is least squares on
simulated rows: tau measured = W(q_s, dq_s, ddq_s) base. No measured position is used, differentiated or filtered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.estimators.estimator import Fit
from ros2_dynid.identification.estimators.instrumental import in_band, motion_band
from ros2_dynid.identification.estimators.simulated_loop import SimulatedRecordings, first_estimate, iterate_estimates
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import OnChunk
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.efforts import DRIVE
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import Array, Robot

UNEXPLAINED_SHARE = 0.5
"""Share of the distance between robot and reference that a simulation with the right controller leaves, at most."""
HARMLESS_SHARE = 2e-3
"""Distance between simulated and recorded motion, over the motion, below which it does not matter: estimates would be
off by about this share."""


def didim(
    first: Estimate, rows: Callable[[Estimate], Information], prior: Array | None = None
) -> tuple[Estimate, Information]:
    """Return the estimate whose simulated closed loop has the measured torques, and the information of its rows.

    first: where to start; rows: from an estimate to the information of measured torques on simulated rows.
    """

    def step_towards_torques(estimate: Estimate) -> tuple[Estimate, Information]:
        information = rows(estimate)
        return fit_output_error(information, prior), information

    return iterate_estimates(first, step_towards_torques)


def fit_output_error(information: Information, prior: Array | None = None) -> Estimate:
    """Return a Gauss-Newton step with its error bars: weighted least squares on simulated rows."""
    return replace(wls(information, prior), method=Method.DIDIM)


def refuse_unknown_loop(
    robot: Robot, prepared: Prepared, controller: object | None, terms: Sequence[FrictionTerm]
) -> None:
    """Raise InputError where the closed loop is not known whole: reference, controller, friction or rotors."""
    if any(joint.measured_drive != DRIVE for joint in robot.joints):
        what = (
            "didim simulates motors, and efforts of torque sensors at the links do not show their friction and rotors"
        )
        raise InputError(what, Text("use ", Option("method", Method.IDIM_IV.value)), prepared.source)
    if any(term.kind.thermal for term in terms):
        what = "didim does not simulate friction that changes with the temperature"
        hint = Text("use ", Option("method", Method.IDIM_IV.value), ", or another law of friction")
        raise InputError(what, hint, prepared.source)
    if controller is None:
        hint = Text("give the gains of the robot's controller: ", Option("controller", "controllers.yaml"))
        raise InputError("didim simulates the robot's own closed loop, and its controller is not known", hint)
    if prepared.reference is None:
        what = "didim simulates the robot's own closed loop, and the recording has no commanded positions"
        hint = Text("record them too (NAME.reference), or use ", Option("method", Method.IDIM_IV.value))
        raise InputError(what, hint, prepared.source)


def refuse_other_motion(prepared: Prepared, simulated: Prepared, names: tuple[str, ...]) -> None:
    """Raise InputError where the simulated robot moves otherwise than the recorded one: the controller is another."""
    assert prepared.reference is not None
    band, step = motion_band(prepared), simulated.step // prepared.step
    usable = simulated.bridged == 0.0
    off, led, size = (np.zeros(len(names)) for _ in range(3))
    samples = 0
    for coarse, fine in zip(prepared.segments, simulated.segments, strict=True):
        good = usable[fine][::step] & (prepared.bridged[coarse] == 0.0)
        moved_, was, meant = (
            in_band(x, band, prepared.filter.inner_rate)[good]
            for x in (simulated.q[fine][::step], prepared.q[coarse], prepared.reference[coarse])
        )
        samples += len(was)
        off += np.sum((moved_ - was) ** 2, axis=0)
        led += np.sum((meant - was) ** 2, axis=0)
        size += np.sum((was - was.mean(axis=0)) ** 2, axis=0) if len(was) else 0.0
    wrong = (off > UNEXPLAINED_SHARE**2 * led) & (off > HARMLESS_SHARE**2 * size)
    if wrong.any():
        k = int(np.argmax(np.where(wrong, off / np.maximum(size, 1e-300), 0.0)))
        far, apart = (float(np.sqrt(x[k] / samples)) for x in (off, led))
        what = (
            f"joint {names[k]!r}: the simulated robot is {far:.2g} rad or m away from the recorded one, which is "
            f"{apart:.2g} away from its reference: the controller is another than was given"
        )
        hint = Text(
            "check gains and speed filter, record what it adds (NAME.feedforward), or use ",
            Option("method", Method.IDIM_IV.value),
        )
        raise InputError(what, hint, prepared.source)


def build_fit(problem: Problem, on_chunk: OnChunk | None = None) -> Fit:
    """Return DIDIM for a problem; folds use the simulated rows of the whole."""
    for prepared in problem.prepared:
        refuse_unknown_loop(problem.robot, prepared, problem.controller, problem.terms)
    simulation = SimulatedRecordings(problem)

    def rows(number: int) -> Iterator[Rows]:
        for simulated, measured in zip(simulation.rows(number), problem.rows(number), strict=True):
            yield replace(simulated, tau=measured.tau)

    def on_simulated_rows(estimate: Estimate) -> Information:
        simulation.run(estimate)
        return problem.gather_rows(rows)

    whole, information = didim(first_estimate(problem), on_simulated_rows, problem.prior)
    for prepared, motion in zip(problem.prepared, simulation.motions, strict=True):
        refuse_other_motion(prepared, motion, problem.robot.active_names)

    def fit(blocks: Sequence[int] | None) -> Estimate:
        return whole if blocks is None else fit_output_error(information.take(blocks), problem.prior)

    return fit
