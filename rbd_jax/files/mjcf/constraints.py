"""Reads the equality constraints of an MJCF file as constraints of the model."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Polynomial

from ..._core.array import from_numpy
from ...contact.equality import QuaternionWeld, SoftEquality, SoftTendonEquality
from ...loops import Connect, Constraint, CoordinateCoupling, Weld
from ...spatial.attached import Attached
from ...spatial.transform import Transform
from .compiled import body_names, carrier_of, joint_names, rotation_matrix
from .tendons import tendon_names


#: MuJoCo's `eq_type`, for the kinds that are supported.
CONNECT, WELD, JOINT, TENDON = range(4)


def constraints_of(mujoco, compiled, soft: bool) -> list[Attached]:
    """Returns the active equality constraints, as soft constraints of the contact model if `soft`, otherwise as hard ones."""
    bodies, hinges = body_names(compiled), joint_names(compiled)
    found: list[Attached] = []
    for equality in np.flatnonzero(compiled.eq_active0).tolist():
        kind = compiled.eq_type[equality]
        numbers = {key: np.array(getattr(compiled, f"eq_{key}")[equality]) for key in ("solref", "solimp")}
        hard: Constraint | None = None
        if kind == JOINT:
            hard = CoordinateCoupling(_polynomials(compiled, equality, hinges))
        elif kind == TENDON and soft:
            found.append(SoftTendonEquality(*_lengths(compiled, equality), **numbers))
        elif kind == TENDON and couples_coordinates(mujoco, compiled, equality):
            hard = CoordinateCoupling(_sums(compiled, equality, hinges))
        elif kind in (CONNECT, WELD):
            (body_a, frame_a), (body_b, frame_b) = _ends(mujoco, compiled, equality)
            if carrier_of(compiled, body_a) == carrier_of(compiled, body_b):
                continue
            ends = bodies[body_a], frame_a, bodies[body_b], frame_b
            if kind == CONNECT:
                hard = Connect(*ends)
            else:
                hard = QuaternionWeld(*ends, compiled.eq_data[equality, 10]) if soft else Weld(*ends)
        if hard is not None:
            found.append(SoftEquality(hard, **numbers) if soft else hard)
    return found


def _lengths(compiled, equality: int) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Returns the tendons of an equality constraint, their lengths in `qpos0`, and the polynomial between the lengths."""
    ids = [int(compiled.eq_obj1id[equality]), int(compiled.eq_obj2id[equality])]
    ids = [one for one in ids if one >= 0]
    names = tendon_names(compiled)
    return [names[one] for one in ids], compiled.tendon_length0[ids], np.array(compiled.eq_data[equality, :5])


def _polynomials(compiled, equality: int, hinges: list[str]) -> dict[str, np.ndarray]:
    """Returns `y - y0 = p(x - x0)`, with the subscript 0 for `qpos0`, as one polynomial per joint.

    Without a second joint, x is x0.
    """
    first, second = compiled.eq_obj1id[equality], compiled.eq_obj2id[equality]
    y0, p = compiled.qpos0[compiled.jnt_qposadr[first]], Polynomial(compiled.eq_data[equality, :5])
    if second < 0:
        return {hinges[first]: np.array([-y0 - p.coef[0], 1])}
    x0 = compiled.qpos0[compiled.jnt_qposadr[second]]
    return {hinges[first]: np.array([-y0, 1]), hinges[second]: -p(Polynomial([-x0, 1])).coef}


def couples_coordinates(mujoco, compiled, equality: int) -> bool:
    """Returns whether an equality of tendons is a sum of polynomials of joint coordinates.

    That requires tendons that are sums of coordinates, and a linear polynomial unless it depends on one joint only.
    """
    first, second = compiled.eq_obj1id[equality], compiled.eq_obj2id[equality]
    for tendon in (first, second)[: 1 if second < 0 else 2]:
        start, count = compiled.tendon_adr[tendon], compiled.tendon_num[tendon]
        if (compiled.wrap_type[start : start + count] != mujoco.mjtWrap.mjWRAP_JOINT).any():
            return False
    of_one = second < 0 or compiled.tendon_num[second] == 1
    return bool(of_one or not compiled.eq_data[equality, 2:5].any())


def _sums(compiled, equality: int, hinges: list[str]) -> dict[str, np.ndarray]:
    """Returns `y - y0 = p(x - x0)` for tendon lengths `Σ c q`, as one polynomial per joint. Without a second tendon, x is x0."""
    first, second = compiled.eq_obj1id[equality], compiled.eq_obj2id[equality]
    total: dict[str, Polynomial] = {}

    def add(tendon, of_length):
        """Adds `of_length` of a tendon's length. `of_length` is affine, or any polynomial if the tendon has one joint."""
        start, count = compiled.tendon_adr[tendon], compiled.tendon_num[tendon]
        for place in range(start, start + count):
            scaled = of_length(Polynomial([0, compiled.wrap_prm[place]]))
            # Only the first joint carries the constant.
            own = scaled if place == start else scaled - of_length(Polynomial([0]))
            joint = hinges[compiled.wrap_objid[place]]
            total[joint] = total.get(joint, Polynomial([0])) + own

    y0, p = compiled.tendon_length0[first], Polynomial(compiled.eq_data[equality, :5])
    if second < 0:
        add(first, lambda y: y - y0 - p.coef[0])
    else:
        x0 = compiled.tendon_length0[second]
        add(first, lambda y: y - y0)
        add(second, lambda x: -p(x - x0))
    return {joint: np.atleast_1d(polynomial.coef) for joint, polynomial in total.items()}


def _ends(mujoco, compiled, equality: int) -> list[tuple[int, Transform]]:
    """Returns the two bodies that a connect or a weld ties, and the frame of the constraint in each."""
    ids = compiled.eq_obj1id[equality], compiled.eq_obj2id[equality]
    data, unturned = compiled.eq_data[equality], np.array([1.0, 0, 0, 0])
    # Equalities between sites exist since MuJoCo 3.2.3.
    if hasattr(compiled, "eq_objtype") and compiled.eq_objtype[equality] == mujoco.mjtObj.mjOBJ_SITE:
        sites = list(ids)
        ends = zip(compiled.site_bodyid[sites], compiled.site_quat[sites], compiled.site_pos[sites])
    elif compiled.eq_type[equality] == CONNECT:
        ends = zip(ids, (unturned, unturned), (data[:3], data[3:6]))
    else:
        ends = zip(ids, (data[6:10], unturned), (data[3:6], data[:3]))
    return [
        (int(body), Transform(from_numpy(rotation_matrix(quat)), from_numpy(np.array(pos))))
        for body, quat, pos in ends
    ]
