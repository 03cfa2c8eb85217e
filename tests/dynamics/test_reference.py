"""The algorithms agree with slow independent implementations in other coordinates: see `reference.py`."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from cases import assert_close, compiled, each
from reference import Mechanism, joint_tables, rnea_3d

import rbd_jax as rbd


PLAIN = ("chain", "forest", "driven", "mixed")
#: Models without armature, which the bodies' equations do not include.
REVOLUTE = ("chain", "forest")


def mechanisms(case):
    """Yields the model in each of its states, in the form of the book's tables."""
    rows = compiled(joint_tables)(case.model, case.states.q, case.states.v)
    for sample in range(len(case.states.q)):
        yield sample, Mechanism.of(case.model, [{key: x[sample] for key, x in row.items()} for row in rows])


@pytest.fixture(scope="module", params=each(PLAIN))
def plain(request, cases):
    """Returns a case without mimic joints, and its mechanisms."""
    case = cases(request.param)
    return case, list(mechanisms(case))


def test_kinematics_are_products_of_transforms(plain):
    """Book examples 4.3 and 4.4, eqs. 5.2 and 5.4 except the closed sums; Sueda eqs. 2.3 to 2.6."""
    case, slow = plain
    for sample, mechanism in slow:
        assert_close(case.motion["now"]["frames"][sample], mechanism.frames())
        assert_close(case.motion["now"]["velocities, body"][sample], np.array(mechanism.velocities()))
        accelerations = np.array(mechanism.accelerations(case.states.a[sample], np.zeros(6)))
        assert_close(case.seen["accelerations, body"][sample], accelerations)


def test_inverse_dynamics_is_table_5_1(plain):
    """Book table 5.1, with the equation of motion of each body (eq. 2.68)."""
    case, slow = plain
    for sample, mechanism in slow:
        a, f_ext = case.states.a[sample], case.states.f_ext[sample]
        assert_close(case.seen["tau"][sample], mechanism.rnea(a, f_ext))


def test_mass_matrix_is_table_6_2(plain):
    """Book table 6.2."""
    case, slow = plain
    for sample, mechanism in slow:
        assert_close(case.seen["mass matrix"][sample], mechanism.crba())


def test_forward_dynamics_is_table_7_1(plain):
    """Book table 7.1."""
    case, slow = plain
    for sample, mechanism in slow:
        found = mechanism.aba(case.seen["tau"][sample], case.states.f_ext[sample])
        assert_close(found, case.states.a[sample])


@pytest.mark.parametrize("name", each(PLAIN))
def test_forward_dynamics_is_the_system_of_all_bodies_and_constraint_forces(cases, name):
    """Book eq. 3.74, with six coordinates for every body, also for driven joints."""
    case = cases(name)
    model = without_armature(case.model)
    tau, f_ext = case.states.a, 0 * case.states.f_ext
    states = case.states
    acceleration = compiled(rbd.forward_dynamics)(model, states.q, states.v, tau, f_ext)
    for sample, mechanism in mechanisms(case):
        # The condition number of the system of masses and constraints is about 1e5.
        assert_close(mechanism.newton_euler(tau[sample]), acceleration[sample], 1e-9)


def without_armature(model):
    return replace(model, armature=jax.device_put(np.zeros(model.nv)))


def forces_by_mass_matrix(model, q, v, a):
    return rbd.mass_matrix(model, q) @ a + rbd.bias_force(model, q, v)


def test_inverse_dynamics_is_luh_walker_and_pauls(cases):
    """The recursion with vectors of three, book table 5.2, on revolute joints; eqs. 1.4, 2.70 and 2.71 for each body."""
    case = cases("chain")
    model, states = case.model, case.states
    forces = compiled(forces_by_mass_matrix)(model, states.q, states.v, states.a)
    mass, com, central = (
        np.asarray(x) for x in (model.inertias.mass, model.inertias.com, model.inertias.rotational_com)
    )
    for sample, mechanism in mechanisms(case):
        axes = [subspace[:3, 0] for subspace in mechanism.subspace]
        place = (mechanism.rotation, mechanism.position)
        speeds = states.v[sample], states.a[sample]
        tau = rnea_3d(mechanism.parents, *place, axes, mass, com, central, mechanism.gravity, *speeds)
        assert_close(tau, forces[sample])
