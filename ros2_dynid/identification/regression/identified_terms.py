# SPDX-License-Identifier: Apache-2.0

"""Friction terms with what was estimated of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.identification.friction.shapes import change_shape
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.model.friction import FrictionTerm, law_columns
from ros2_dynid.model.robot import Array


def identified_terms(terms: Sequence[FrictionTerm], found: Estimate) -> tuple[FrictionTerm, ...]:
    """Return the friction terms with what was estimated; a coefficient that cannot be negative is at least zero."""
    known = [
        replace(
            term,
            coefficient=max(float(value), 0.0) if term.positive else float(value),
            std=float(std) if np.isfinite(std) else None,
        )
        for term, value, std in zip(terms, found.friction, found.friction_std, strict=True)
    ]
    shapes = {(term.joint, term.kind): term for term in known if term.of_shape}
    return tuple(_with_shape(term, shapes.get((term.joint, term.kind))) for term in known if not term.of_shape)


def friction_covariance(terms: Sequence[FrictionTerm], found: Estimate) -> Array | None:
    """Return the covariance of the f columns of the identified law with base parameters and each other, (f, b + f).

    terms: those of the estimate; the columns are those of `law_columns`. None where the data do not determine one.
    """
    first = found.layout.friction.start
    place = {(term.joint, term.kind, term.of_shape): first + k for k, term in enumerate(terms)}
    columns = law_columns(identified_terms(terms, found))
    at = [place[term.joint, term.kind, term.of_shape] for term in columns]
    C = found.covariance[np.ix_(at, [*range(found.layout.n_base), *at])]
    return C if at and np.all(found.identified[at]) and np.all(np.isfinite(C)) else None


def _with_shape(term: FrictionTerm, shape: FrictionTerm | None) -> FrictionTerm:
    """Return a term with the change of its shape that was estimated beside it."""
    if shape is None or term.coefficient <= 0.0:
        return term
    std = None if shape.std is None else shape.std / term.coefficient
    changed, kind = change_shape(term, shape.coefficient / term.coefficient), term.kind.shape
    assert kind is not None
    return changed.with_shape(changed.shape, std if std is None or not kind.logarithmic else term.shape * std)
