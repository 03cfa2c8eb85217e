"""What is free: vectors to models and back, whatever the kind; names, ties, bounds, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import assert_close, differences

import rbd_jax as rbd
from rbd_jax import identify


def two_arms():
    """A trunk with two arms that are each other's mirror images in y, their frames turned otherwise, and a spring."""
    builder = rbd.ModelBuilder(name="two arms")
    solid = rbd.Inertia.from_mass_com(
        1.5, jnp.array([0.1, 0.02, -0.3]), jnp.diag(jnp.array([0.03, 0.04, 0.02]))
    )
    mirror = jnp.diag(jnp.array([1.0, -1.0, 1.0, 1.0]))
    other = rbd.Inertia.from_pseudo_inertia(mirror @ solid.pseudo_inertia @ mirror)
    turned = rbd.Transform.from_xyz_rpy((0, 0, 0), (0, 0, np.pi / 2))
    y = (0.0, 1.0, 0.0)
    builder.add_body(
        "trunk", "world", rbd.joints.Revolute(), inertia=rbd.Inertia.sphere(3.0, 0.2, (0.1, 0, 0))
    )
    for side, sign, inertia in (("left", 1, solid), ("right", -1, other.placed(turned.inverse()))):
        placement = rbd.Transform.from_position(jnp.array([0.0, 0.3 * sign, 0.5]))
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


MODEL = two_arms()

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
PARAMETERS = identify.Parameters(MODEL, ALL)


def point(key, scale=0.3):
    """Somewhere around the model, but not at the bounds."""
    start = PARAMETERS.x_of(MODEL)
    return jnp.where(start < -5, -1, start) + scale * jax.random.normal(key, (PARAMETERS.size,))


def test_a_vector_and_its_model_are_each_others_inverse(key):
    x = point(key)
    model = jax.jit(lambda x: PARAMETERS.model(x))(x)
    assert_close(PARAMETERS.x_of(model), x, 1e-8)
    assert_close(PARAMETERS.values_of(model), PARAMETERS.values(x), 1e-12)
    assert model.inertias.is_physical.all() and (model.damping >= 0).all() and 0 < model.stiffness[0] < 10
    assert model.friction[2] == 0 and model.armature[0] == 0


def test_what_is_not_free_stays(key):
    model = PARAMETERS.model(point(key))
    trunk = MODEL.inertias.parameters[0]
    assert_close(model.inertias.parameters[0], trunk, 0)
    assert_close(model.inertias.rotational_com[2] / model.inertias.mass[2],
                 MODEL.inertias.rotational_com[2] / MODEL.inertias.mass[2], 1e-12)  # fmt: skip
    assert_close(model.placements.position[3], MODEL.placements.position[3], 0)


def test_names_and_units():
    told = dict(zip(PARAMETERS.names, PARAMETERS.units, strict=True))
    assert (
        told["left_arm Ixy"] == "kg m²"
        and told["trunk damping"] == "N m s/rad"
        and told["slide damping"] == "N s/m"
    )
    assert (
        told["slide armature"] == "kg" and told["right_arm offset"] == "rad" and told["gravity[2]"] == "m/s²"
    )
    assert any("spring_constant" in name and told[name] == "N/m" for name in told)
    assert PARAMETERS.size == 10 + 1 + 3 + 4 + 1 + 1 + 1 + 1 + 6 + 1 + 3
    mean, deviation = PARAMETERS.prior()
    (at,) = [i for i, name in enumerate(PARAMETERS.names) if "stiffness" in name]
    assert np.flatnonzero(np.isfinite(deviation)).tolist() == [at] and deviation[at] == 2 and mean[at] == 0


def test_derivatives_are_difference_quotients(key):
    def leaves(x):
        model = PARAMETERS.model(x)
        spring = model.forces[0].spring_constant
        return jnp.concatenate(
            [model.inertias.parameters.reshape(-1), model.damping, model.stiffness, model.placements.position.reshape(-1),
             model.placements.rotation.reshape(-1), spring[None], model.gravity]
        )  # fmt: skip

    x = point(key)
    found = jax.jit(jax.jacfwd(leaves))(x)
    assert_close(found[None], differences(jax.jit(jax.vmap(leaves)), x[None]), 1e-7)


def test_an_offset_is_what_must_be_added_to_a_coordinate():
    parameters = identify.Parameters(MODEL, [identify.joint_offsets("right_arm", "slide")])
    moved = parameters.with_values(jnp.array([0.2, -0.1]))
    q = jnp.array([0.3, 0.1, -0.4, 0.2])
    expected = rbd.forward_kinematics(MODEL, q + jnp.array([0, 0, 0.2, -0.1]))
    assert_close(rbd.forward_kinematics(moved, q).matrix, expected.matrix, 1e-12)


def test_mirror_images_follow():
    """The right arm is the mirror image of the left one to begin with, and stays so, though its frame is turned."""
    tied = identify.tied(identify.inertias("left_arm"), "left_*", "right_*", mirror=(0, 1, 0))
    parameters = identify.Parameters(MODEL, [tied])
    assert parameters.names[0] == "left_arm mass" and parameters.size == 10
    same = parameters.with_values(parameters.values_of(MODEL))
    assert_close(same.inertias.parameters, MODEL.inertias.parameters, 1e-12)
    x = parameters.x_of(MODEL) + 0.3 * jnp.sin(jnp.arange(10.0))
    model = jax.jit(lambda x: parameters.model(x))(x)
    assert model.inertias.is_physical.all()
    q = rbd.neutral(model)
    frames = rbd.forward_kinematics(model, q)
    left, right = (model.inertias[i].placed(frames[i]).pseudo_inertia for i in (1, 2))
    mirror = jnp.diag(jnp.array([1.0, -1.0, 1.0, 1.0]))
    assert_close(right, mirror @ left @ mirror, 1e-12)
    centers = identify.Parameters(
        MODEL, [identify.tied(identify.centers_of_mass("left_*"), "left_*", "right_*", mirror=(0, 1, 0))]
    )
    moved = centers.with_values(jnp.array([0.1, 0.2, 0.3]))
    points = [frames[i].rotation @ moved.inertias.com[i] + frames[i].position for i in (1, 2)]
    assert_close(points[1], points[0] * jnp.array([1.0, -1.0, 1.0]), 1e-12)


def test_equal_numbers_are_one():
    parameters = identify.Parameters(MODEL, [identify.tied(identify.damping("*_arm"))])
    assert parameters.names == ("left_arm damping",)
    assert parameters.with_values(jnp.array([0.7])).damping.tolist() == [0, 0.7, 0.7, 0]


def test_a_value_on_its_bound_is_taken_inside():
    parameters = identify.Parameters(MODEL, identify.coulomb("trunk"))
    assert 0 < float(parameters.model(parameters.x_of(MODEL)).friction[0]) < 2e-3


def test_kinds_of_the_bundled_robots():
    model = rbd.load("quadruped")
    free = [identify.sliding_friction(), identify.gear_ratios(), identify.gains(), identify.inertias()]
    parameters = identify.Parameters(model, free)
    assert_close(
        parameters.values_of(parameters.with_values(parameters.values_of(model))),
        parameters.values_of(model),
        1e-12,
    )
    values = parameters.values_of(model).at[0].set(0.35)
    assert float(parameters.with_values(values).shapes[0].friction[0]) == 0.35


def test_friction_is_damping_and_coulomb():
    """Of each joint both, in one line; bounds and priors are of each; what is free twice is refused."""
    prior = ([0.5, 0.2], [0.1, 0.3])
    parameters = identify.Parameters(
        MODEL, [identify.friction("trunk", prior=prior), identify.masses("trunk")]
    )
    assert parameters.names[:2] == ("trunk damping", "trunk friction")
    model = parameters.with_values(jnp.array([0.7, 0.4, 1.0]))
    assert (float(model.damping[0]), float(model.friction[0])) == (0.7, 0.4)
    assert_close(parameters.values_of(model), [0.7, 0.4, 1.0], 1e-12)
    assert_close(parameters.prior()[0][:2], prior[0], 1e-12)
    assert_close(parameters.prior()[1][:2], prior[1], 1e-12)
    assert parameters.linear and float(parameters.bounds()[0][1]) == 0
    for other in (identify.damping, identify.coulomb):
        with pytest.raises(rbd.ModelError, match="both free the (damping|friction)"):
            identify.Parameters(MODEL, [identify.friction(), other("trunk")])


class Spin(identify.Kind):
    """A kind of a user's own: where springs rest."""

    of = "joint"
    components = (("rest", "rad", "m"),)

    def candidates(self, model):
        return [identify.Candidate(name, i, name) for i, name in enumerate(model.joint_names[:2])]

    def read(self, model, places, reference):
        return model.spring_reference[places][:, None]

    def write(self, model, places, values):
        from dataclasses import replace

        return replace(model, spring_reference=model.spring_reference.at[places].set(values[:, 0]))


def test_a_kind_of_your_own():
    parameters = identify.Parameters(MODEL, Spin(("trunk",)))
    assert parameters.names == ("trunk rest",)
    assert float(parameters.with_values(jnp.array([0.4])).spring_reference[0]) == 0.4


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
        identify.Parameters(MODEL, free())


def test_bodies_that_cannot_be_are_named():
    from dataclasses import replace

    thin = MODEL.inertias.parameters.at[1, 9].set(5.0)
    model = replace(MODEL, inertias=rbd.Inertia.from_parameters(thin))
    with pytest.raises(rbd.ModelError, match="'left_arm' the model has an inertia that no body has"):
        identify.Parameters(model, identify.inertias())
    fixed = identify.made_physical(model)
    assert fixed.inertias.is_physical.all()
    assert_close(fixed.inertias.parameters[:, :4], model.inertias.parameters[:, :4], 1e-12)
    assert_close(fixed.inertias.parameters[2:], model.inertias.parameters[2:], 1e-12)
    identify.Parameters(fixed, identify.inertias())
