"""Contacts with the world as functions of body accelerations have the rows, forces and Hessians of the complete model."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

import rbd_jax as rbd
from rbd_jax._core.positive import Pattern, apply_inverse
from rbd_jax.contact.contacts import contact_jacobian, contacts_of
from rbd_jax.contact.groups import contact_groups
from rbd_jax.contact.on_bodies import OnBodies
from rbd_jax.contact.soft_rows import AsMujoco, HeldContacts, mobilities
from rbd_jax.dynamics.mass_matrix import composite_rigid_body


def two_legs(mimic: bool):
    """Returns a floating base with two legs, and a free ball; spheres and boxes at a floor.

    With `mimic` the second leg follows the first.
    """
    builder = rbd.ModelBuilder()
    inertia = rbd.Inertia.sphere(1.0, 0.2)
    builder.add_body("base", joint=rbd.joints.Free(), inertia=inertia)
    builder.add_body("left", "base", joint=rbd.joints.Revolute((0, 1, 0)), inertia=inertia)
    follows = {"mimic": rbd.Mimic("left", -0.5, 0.1)} if mimic else {}
    builder.add_body("right", "base", joint=rbd.joints.Revolute((1, 0, 0)), inertia=inertia, **follows)
    builder.add_body("ball", joint=rbd.joints.Free(), inertia=inertia)
    shapes = [
        rbd.Shape("floor", "world", rbd.shapes.Plane()),
        rbd.Shape("base", "base", rbd.shapes.Box((0.2, 0.3, 0.1))),
        rbd.Shape("left", "left", rbd.shapes.Sphere(0.1), (0.1, 0, -0.2)),
        rbd.Shape("right", "right", rbd.shapes.Sphere(0.1), (-0.1, 0.1, -0.2)),
        rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.2), condim=6),
    ]
    apart = [
        rbd.contact.ContactExclusion(f"{a}{b}", (a, b))
        for a, b in [("left", "right"), ("ball", "base"), ("ball", "left"), ("ball", "right")]
    ]
    return rbd.attach(builder.build(), *shapes, *apart, rbd.contact.Soft())


@pytest.mark.parametrize(
    "mimic",
    [
        pytest.param(False, marks=pytest.mark.slow, id="every joint moves"),
        pytest.param(True, id="a joint follows"),
    ],
)
def test_rows_forces_and_hessians_are_those_of_the_whole_model(mimic):
    model = two_legs(mimic)
    rng = np.random.default_rng(0)

    def both(q, v, a):
        motion = rbd.Motion(model, q, v)
        found = contacts_of(motion)
        groups = contact_groups(motion, found, None)
        hold = AsMujoco(jnp.asarray(0.0))
        give = mobilities(model)
        terms, dense = [], []
        for group in groups:
            touching = HeldContacts(motion, group, give, hold)
            terms.append(touching.term(lambda own: own, "pyramidal", jnp.asarray(1.0)))
            rows = contact_jacobian(motion, group.contacts, group.size)
            dense.append(group.stacked(rows))
        own = OnBodies.of(motion, tuple(terms), tuple(tuple(group.ends.tolist()) for group in groups))
        miss, nothing = own.miss(a), jnp.zeros((model.nv, model.nv))
        by_rows = [jnp.einsum("gcdn,n->gcd", rows, a) for rows in dense]
        forces, bends = own.force(miss), own.bend(miss)
        pushed = sum(jnp.einsum("gcd,gcdn->n", *pair) for pair in zip(forces, dense))
        hessian = sum(jnp.einsum("gcin,gcij,gcjm->nm", rows, bend, rows) for rows, bend in zip(dense, bends))
        acts = [term.acts for term in terms]
        moved = own.along(jnp.eye(model.nv), 0.1 * a).miss(0.9 * a)
        return (
            (own.rows(a), own.push(miss), own.stiffened(nothing, miss)),
            (by_rows, pushed, hessian),
            acts,
            (miss, moved),
        )

    free = np.array([0, 0, 0, 1.0, 0, 0, 0])
    q = rbd.integrate(model, model.reference, jnp.asarray(0.2 * rng.normal(size=model.nv)))
    q = (
        q.at[model.q_slice("base")]
        .set(free + [0, 0, 0.2, 0, 0, 0, 0])
        .at[model.q_slice("ball")]
        .set(free + [3, 0, 0.15, 0, 0, 0, 0])
    )
    (rows, push, hessian), (by_rows, pushed, by_all), acts, (miss, moved) = jax.jit(both)(
        q, jnp.asarray(rng.normal(size=model.nv)), jnp.asarray(rng.normal(size=model.nv))
    )
    assert sum(int(act.sum()) for act in acts) >= 3
    for own, other, act in zip(rows, by_rows, acts):
        assert_allclose(own[act], other[act], atol=1e-13)
    assert np.abs(push).max() > 1
    assert_allclose(push, pushed, atol=1e-11 * np.abs(pushed).max())
    assert_allclose(hessian, np.tril(by_all), atol=1e-11 * np.abs(by_all).max())
    for own, other in zip(miss, moved):
        assert_allclose(own, other, atol=1e-11 * (1 + np.abs(own).max()))


def test_a_matrix_with_the_pattern_of_a_tree_is_inverted_by_fewer_operations():
    model = rbd.load("quadruped")
    supports = model.topology.tree.supports
    pattern = Pattern(supports | supports.T)
    x = jnp.asarray(np.random.default_rng(0).normal(size=model.nv))

    @jax.jit
    def both(q):
        matrix = composite_rigid_body(rbd.Motion(model, q))
        lower = jnp.tril(matrix)
        return matrix, apply_inverse(lower, x, pattern), apply_inverse(lower, x)

    matrix, *found = both(model.reference)
    for own in found:
        assert_allclose(own, np.linalg.solve(matrix, x), rtol=1e-9)
    sparse, full = (
        rbd.explain(lambda m, p=p: apply_inverse(m, x, p), jnp.ones((512, model.nv, model.nv)))
        for p in (pattern, None)
    )
    size = lambda text: int(str(text).split(" scalars")[0].split()[-1].replace(",", ""))
    assert size(sparse) < 0.6 * size(full)


@pytest.mark.slow
def test_a_bound_keeps_the_deepest_contacts():
    """Four corners of a tilted box penetrate the floor; with a limit of two the shallow ones have no force."""
    builder = rbd.ModelBuilder()
    builder.add_body("box", joint=rbd.joints.Free(), inertia=rbd.Inertia.box(1.0, (0.4, 0.4, 0.4)))
    shapes = (
        rbd.Shape("box", "box", rbd.shapes.Box((0.2, 0.2, 0.2))),
        rbd.Shape("floor", "world", rbd.shapes.Plane()),
    )
    tilt = 0.02
    q = jnp.array([0, 0, 0.19, np.cos(tilt), 0, np.sin(tilt), 0])
    forces = {}
    for most in (None, 4, 2):
        model = rbd.attach(builder.build(), *shapes, rbd.contact.Soft(most=most))
        forces[most] = rbd.contact_forces(model, rbd.State(q, jnp.zeros(6)))
    assert (forces[None].force[:, 0] > 0).sum() == 4
    order = np.argsort(forces[None].distance)
    assert_allclose(forces[4].force[np.argsort(forces[4].distance)], forces[None].force[order], atol=1e-9)
    assert forces[2].force.shape == (2, 6) and int(forces[2].lost) == 2
    assert_allclose(np.sort(forces[2].distance), np.sort(forces[None].distance)[:2])


def test_bodies_with_several_joints_do_not_touch_what_carries_them():
    text = """<mujoco><worldbody><geom type="plane" size="1 1 1"/>
      <body name="pelvis" pos="0 0 1"><freejoint/><geom name="pelvis" size=".2"/>
        <body name="thigh" pos="0 0 -.1"><joint name="x" axis="1 0 0"/><joint name="y" axis="0 1 0"/>
          <geom name="thigh" size=".15"/>
          <body name="shin" pos="0 0 -.1"><joint name="knee" axis="0 1 0"/><geom name="shin" size=".1"/></body>
        </body></body></worldbody></mujoco>"""
    compiled = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(compiled)
    mujoco.mj_forward(compiled, data)
    theirs = {frozenset(compiled.geom(k).name for k in (one.geom1, one.geom2)) for one in data.contact}
    for model in (rbd.load_mjcf(text), rbd.load_mjcf(rbd.to_mjcf(rbd.load_mjcf(text)))):
        found = rbd.contacts(model, model.reference)
        touch = {frozenset(found.shapes[k]) for k in np.asarray(found.pair)[np.asarray(found.distance) < 0]}
        assert touch == theirs == {frozenset(("pelvis", "shin"))}
