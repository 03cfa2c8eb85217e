"""Parameters: conversion between vectors and models for all groups; names, ties, bounds, and errors."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close, differences

import rbd_jax as rbd
from rbd_jax import identify


#: Reflection at the plane of x and z.
MIRROR = np.diag([1.0, -1.0, 1.0, 1.0])


@functools.cache
def two_arms():
    """Returns a trunk with two arms that mirror each other in y, with differently oriented frames, and a spring."""
    builder = rbd.ModelBuilder(name="two arms")
    turned = rbd.Transform.from_xyz_rpy((0, 0, 0), (0, 0, np.pi / 2))
    y = (0.0, 1.0, 0.0)

    @jax.jit
    def arms():
        solid = rbd.Inertia.from_mass_com(
            1.5, jnp.array([0.1, 0.02, -0.3]), jnp.diag(jnp.array([0.03, 0.04, 0.02]))
        )
        other = rbd.Inertia.from_pseudo_inertia(MIRROR @ solid.pseudo_inertia @ MIRROR)
        return solid, other.placed(turned.inverse())

    builder.add_body(
        "trunk", "world", rbd.joints.Revolute(), inertia=rbd.Inertia.sphere(3.0, 0.2, (0.1, 0, 0))
    )
    for side, sign, inertia in zip(("left", "right"), (1, -1), arms()):
        placement = rbd.Transform.from_position(jax.device_put(np.array([0.0, 0.3 * sign, 0.5])))
        axis = y
        if side == "right":
            placement, axis = placement @ turned, tuple(np.asarray(turned.rotation).T @ np.array(y))
        builder.add_body(f"{side}_arm", "trunk", rbd.joints.Revolute(axis), placement, inertia, damping=0.3)
    builder.add_body("slide", "trunk", rbd.joints.Prismatic((0, 0, 1)), inertia=rbd.Inertia.sphere(0.5, 0.1))
    builder.add_body("tool", "slide")
    model = builder.build()
    return rbd.add_forces(
        model, rbd.forces.SpringDamper(("world", "slide"), ((0, 0, 0), (0, 0, 1)), 0.5, 20.0)
    )


ALL = [
    identify.inertias("left_*"),
    identify.masses("right_arm"),
    identify.centers_of_mass("right_arm"),
    identify.damping(),
    identify.coulomb("left_arm"),
    identify.armature("slide"),
    identify.stiffness("trunk", bounds=(0.0, 10.0), prior=(None, 2.0)),
    identify.joint_offsets("right_arm"),
    identify.placements("left_arm"),
    identify.carried("force", "SpringDamper", "spring_constant", unit="N/m"),
    identify.numbers("gravity", lambda model: model.gravity, unit="m/s²"),
]


@functools.cache
def everything():
    """All parameter groups of the two arms."""
    return identify.Parameters(two_arms(), ALL)


@functools.cache
def both_ways():
    """Returns a function of a point without bounds: its model, the parameters read from the model, and the values."""
    parameters = everything()

    @jax.jit
    def run(x):
        model = parameters.model(x)
        read = parameters.x_of(model), parameters.values_of(model), parameters.values(x)
        return model, *read, model.inertias.is_physical, central(model)

    return run


def central(model):
    """Returns the rotational inertias about the centers of mass, per unit mass."""
    return model.inertias.rotational_com / model.inertias.mass[:, None, None]


def point(seed, scale=0.3):
    """Returns a point near the model, but not at the bounds."""
    parameters, random = everything(), np.random.default_rng(seed)
    start = np.asarray(jax.jit(lambda: parameters.x_of(parameters.reference))())
    return np.where(start < -5, -1, start) + scale * random.normal(size=parameters.size)


def test_a_vector_and_its_model_are_each_others_inverse():
    x = point(0)
    model, again, read, values, is_physical, _ = both_ways()(x)
    assert_close(again, x, 1e-8)
    assert_close(read, values, 1e-12)
    damping, stiffness = np.asarray(model.damping), np.asarray(model.stiffness)
    assert is_physical.all() and (damping >= 0).all() and 0 < stiffness[0] < 10
    assert np.asarray(model.friction)[2] == 0 and np.asarray(model.armature)[0] == 0


def test_what_is_not_free_stays():
    model, *_, found = both_ways()(point(1))
    expected = np.asarray(jax.jit(central)(two_arms()))
    bodies, before = (np.asarray(one.inertias.parameters) for one in (model, two_arms()))
    assert_close(bodies[0], before[0], 0)
    assert_close(np.asarray(found)[2], expected[2], 1e-12)
    places, before = (np.asarray(one.placements.position) for one in (model, two_arms()))
    assert_close(places[3], before[3], 0)


def test_names_and_units():
    parameters = everything()
    told = dict(zip(parameters.names, parameters.units, strict=True))
    assert (
        told["left_arm Ixy"] == "kg m²"
        and told["trunk damping"] == "N m s/rad"
        and told["slide damping"] == "N s/m"
    )
    assert (
        told["slide armature"] == "kg" and told["right_arm offset"] == "rad" and told["gravity[2]"] == "m/s²"
    )
    assert any("spring_constant" in name and told[name] == "N/m" for name in told)
    assert parameters.size == 10 + 1 + 3 + 4 + 1 + 1 + 1 + 1 + 6 + 1 + 3
    mean, deviation = map(np.asarray, jax.jit(lambda: parameters.prior())())
    (at,) = [i for i, name in enumerate(parameters.names) if "stiffness" in name]
    assert np.flatnonzero(np.isfinite(deviation)).tolist() == [at] and deviation[at] == 2 and mean[at] == 0


def test_derivatives_are_difference_quotients():
    parameters = everything()

    def leaves(x):
        model = parameters.model(x)
        spring = model.forces[0].spring_constant
        return jnp.concatenate(
            [model.inertias.parameters.reshape(-1), model.damping, model.stiffness, model.placements.position.reshape(-1),
             model.placements.rotation.reshape(-1), spring[None], model.gravity]
        )  # fmt: skip

    x = point(2)
    found = np.asarray(jax.jit(jax.jacfwd(leaves))(x))
    assert_close(found[None], differences(jax.jit(jax.vmap(leaves)), x[None]), 1e-7)


def test_an_offset_is_what_must_be_added_to_a_coordinate():
    parameters = identify.Parameters(two_arms(), [identify.joint_offsets("right_arm", "slide")])

    @jax.jit
    def both(offset, q):
        moved = parameters.with_values(offset)
        places = (
            rbd.forward_kinematics(moved, q),
            rbd.forward_kinematics(two_arms(), q + jnp.concatenate([jnp.zeros(2), offset])),
        )
        return [frames.matrix for frames in places]

    found, expected = both(np.array([0.2, -0.1]), np.array([0.3, 0.1, -0.4, 0.2]))
    assert_close(found, expected, 1e-12)


def test_mirror_images_follow():
    """The right arm starts and stays as the mirror image of the left one, although its frame is turned."""
    tied = identify.tied(identify.inertias("left_arm"), "left_*", "right_*", mirror=(0, 1, 0))
    parameters = identify.Parameters(two_arms(), [tied])
    assert parameters.names[0] == "left_arm mass" and parameters.size == 10
    centers = identify.Parameters(
        two_arms(),
        [identify.tied(identify.centers_of_mass("left_*"), "left_*", "right_*", mirror=(0, 1, 0))],
    )

    @jax.jit
    def run(change, center):
        same = parameters.with_values(parameters.values_of(two_arms()))
        model = parameters.model(parameters.x_of(two_arms()) + change)
        frames = rbd.forward_kinematics(model, rbd.neutral(model))
        bodies = [model.inertias[i].placed(frames[i]).pseudo_inertia for i in (1, 2)]
        moved = centers.with_values(center)
        points = [frames[i].rotation @ moved.inertias.com[i] + frames[i].position for i in (1, 2)]
        return same.inertias.parameters, model.inertias.is_physical, bodies, points

    same, is_physical, bodies, points = run(0.3 * np.sin(np.arange(10.0)), np.array([0.1, 0.2, 0.3]))
    assert_close(same, two_arms().inertias.parameters, 1e-12)
    assert is_physical.all()
    left, right = map(np.asarray, bodies)
    assert_close(right, MIRROR @ left @ MIRROR, 1e-12)
    assert_close(points[1], np.asarray(points[0]) * np.array([1.0, -1.0, 1.0]), 1e-12)


def test_equal_numbers_are_one():
    parameters = identify.Parameters(two_arms(), [identify.tied(identify.damping("*_arm"))])
    assert parameters.names == ("left_arm damping",)
    assert jax.jit(lambda x: parameters.with_values(x))(np.array([0.7])).damping.tolist() == [0, 0.7, 0.7, 0]


def test_a_value_on_its_bound_is_taken_inside():
    parameters = identify.Parameters(two_arms(), identify.coulomb("trunk"))
    friction = jax.jit(lambda: parameters.model(parameters.x_of(two_arms())).friction[0])()
    assert 0 < float(friction) < 2e-3


def test_kinds_of_the_bundled_robots():
    model = rbd.load("quadruped")
    free = [identify.sliding_friction(), identify.gear_ratios(), identify.gains(), identify.inertias()]
    parameters = identify.Parameters(model, free)

    @jax.jit
    def run():
        values = parameters.values_of(model)
        again = parameters.values_of(parameters.with_values(values))
        return values, again, parameters.with_values(values.at[0].set(0.35)).shapes[0].friction

    values, again, friction = run()
    assert_close(again, values, 1e-12)
    assert float(np.asarray(friction)[0]) == 0.35


def test_friction_is_damping_and_coulomb():
    """`friction` combines damping and Coulomb friction per joint, with bounds and priors of each.

    Parameters that are estimated twice raise an error.
    """
    prior = ([0.5, 0.2], [0.1, 0.3])
    parameters = identify.Parameters(
        two_arms(), [identify.friction("trunk", prior=prior), identify.masses("trunk")]
    )
    assert parameters.names[:2] == ("trunk damping", "trunk friction")

    @jax.jit
    def run(values):
        model = parameters.with_values(values)
        return model, parameters.values_of(model), parameters.prior(), parameters.bounds()

    model, values, known, (low, _) = run(np.array([0.7, 0.4, 1.0]))
    assert (model.damping.tolist()[0], model.friction.tolist()[0]) == (0.7, 0.4)
    assert_close(values, [0.7, 0.4, 1.0], 1e-12)
    for found, expected in zip(known, prior, strict=True):
        assert_close(np.asarray(found)[:2], expected, 1e-12)
    assert parameters.linear and low.tolist()[1] == 0
    for other in (identify.damping, identify.coulomb):
        with pytest.raises(rbd.ModelError, match="both free the (damping|friction)"):
            identify.Parameters(two_arms(), [identify.friction(), other("trunk")])


class Spin(identify.Kind):
    """A user-defined parameter group: rest positions of springs."""

    of = "joint"
    components = (("rest", "rad", "m"),)

    def candidates(self, model):
        return [identify.Candidate(name, i, name) for i, name in enumerate(model.joint_names[:2])]

    def read(self, model, places, reference):
        return model.spring_reference[places][:, None]

    def write(self, model, places, values):
        return replace(model, spring_reference=model.spring_reference.at[places].set(values[:, 0]))


def test_a_kind_of_your_own():
    parameters = identify.Parameters(two_arms(), Spin(("trunk",)))
    assert parameters.names == ("trunk rest",)
    assert jax.jit(lambda x: parameters.with_values(x))(np.array([0.4])).spring_reference.tolist()[0] == 0.4


REFUSED = {
    "mirror images of placements": (
        lambda: identify.tied(identify.placements("left_*"), "left_*", "right_*", mirror=(0, 1, 0)),
        "identify.tied: mirror images of Placements",
    ),
    "no match": (lambda: identify.inertias("left_leg"), "called 'left_leg'; did you mean 'left_arm'"),
    "a joint": (lambda: identify.damping("elbow"), "no joint .* 'elbow'"),
    "no mass": (lambda: identify.inertias("tool"), "called 'tool'"),
    "twice": (lambda: [identify.masses(), identify.inertias("trunk")], "both free the mass of 'trunk'"),
    "nothing": (lambda: [], "free is empty"),
    "no kind": (lambda: ["damping"], "what identify.inertias"),
    "a pair without": (
        lambda: identify.tied(identify.inertias("left_*"), "left_*", "middle_*"),
        "'middle_arm'",
    ),
    "two stars": (lambda: identify.tied(identify.inertias(), "*_*", "x_*"), "2 wildcards"),
    "half a tie": (lambda: identify.tied(identify.inertias(), "left_*"), "leader and follower"),
}


@pytest.mark.parametrize("free, message", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_free_is_refused(free, message, unchecked):
    with pytest.raises((rbd.ModelError, ValueError), match=message):
        identify.Parameters(two_arms(), free())


def test_bodies_that_cannot_be_are_named():
    thin = np.array(two_arms().inertias.parameters)
    thin[1, 9] = 5.0
    model = replace(two_arms(), inertias=rbd.Inertia.from_parameters(jax.device_put(thin)))
    with pytest.raises(rbd.ModelError, match="'left_arm' the model has an inertia that no body has"):
        identify.Parameters(model, identify.inertias())
    fixed = identify.made_physical(model)
    assert fixed.inertias.is_physical.all()
    found = np.asarray(fixed.inertias.parameters)
    assert_close(found[:, :4], thin[:, :4], 1e-12)
    assert_close(found[2:], thin[2:], 1e-12)
    identify.Parameters(fixed, identify.inertias())
