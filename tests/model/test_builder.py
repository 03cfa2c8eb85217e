"""Building models body by body: error messages, couplings, and the round trip."""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax.model.builder import describe


BALL = rbd.Inertia.sphere(1.0, 0.1)


def chain(**last):
    """Returns a builder with two hinged balls; the arguments are those of the second one."""
    builder = rbd.ModelBuilder(name="arm")
    builder.add_body("upper", joint=rbd.joints.Revolute(), inertia=BALL, joint_name="shoulder")
    given = {"parent": "upper", "joint": rbd.joints.Revolute(), "inertia": BALL, "joint_name": "elbow"} | last
    builder.add_body(given.pop("name", "lower"), **given)
    return builder


BAD = {
    "unknown parent": (
        {"parent": "uper"},
        ["body 'lower'", "no body 'uper'", "did you mean 'upper'?", "before"],
    ),
    "its own parent": ({"parent": "lower"}, ["no body 'lower' to attach it to"]),
    "duplicate body": ({"name": "upper"}, ["body 'upper': the name is taken"]),
    "the world's name": ({"name": "world"}, ["body 'world': the name is taken"]),
    "duplicate joint": ({"joint_name": "shoulder"}, ["joint 'shoulder' (of body 'lower')", "taken"]),
    "negative mass": (
        {"inertia": rbd.Inertia.from_mass_com(-1.0, jnp.zeros(3), jnp.eye(3))},
        ["body 'lower'", "mass is -1", "positive or zero"],
    ),
    "inertia nan": (
        {"inertia": rbd.Inertia.from_mass_com(1.0, jnp.zeros(3), jnp.nan * jnp.eye(3))},
        ["body 'lower'", "inertia", "not finite"],
    ),
    "placement infinite": (
        {"placement": rbd.Transform.from_xyz_rpy((0.0, np.inf, 0.0))},
        ["body 'lower'", "placement", "not finite"],
    ),
    "placement stretches": (
        {"placement": rbd.Transform.from_rotation(2 * jnp.eye(3))},
        ["body 'lower'", "placement", "no rotation matrix", "by 3"],
    ),
    "placement mirrors": (
        {"placement": rbd.Transform.from_rotation(-jnp.eye(3))},
        ["body 'lower'", "placement", "reflection"],
    ),
    "two placements": (
        {"placement": rbd.Transform.from_position(jnp.zeros((2, 3)))},
        ["body 'lower'", "placement", "shape (2, 3, 3)", "expected (3, 3)"],
    ),
    "negative damping": ({"damping": -0.1}, ["joint 'elbow'", "damping is -0.1", "cannot be negative"]),
    "negative friction": ({"friction": -1.0}, ["friction is -1", "cannot be negative"]),
    "negative armature": ({"armature": -1.0}, ["armature is -1", "cannot be negative"]),
    "negative stiffness": ({"stiffness": -1.0}, ["stiffness is -1", "cannot be negative"]),
    "limits the wrong way round": (
        {"lower": 1.0, "upper": -1.0},
        ["joint 'elbow': its lower limit 1 is above its upper limit -1"],
    ),
    "a name that is none": ({"name": 3}, ["the name of a body is 3", "nonempty string"]),
    "damping is a word": ({"damping": "a"}, ["joint 'elbow'", "damping is 'a'", "not a number"]),
    "placement by two numbers": (
        {"placement": (1.0, 0.0)},
        ["body 'lower'", "placement has shape (2,)", "a point"],
    ),
    "damping nan": ({"damping": np.nan}, ["joint 'elbow'", "damping is nan, which is not finite"]),
    "limit nan": ({"upper": np.nan}, ["joint 'elbow'", "upper limit is not a number"]),
    "limit is a word": ({"lower": "low"}, ["joint 'elbow'", "lower is 'low'", "not a number"]),
    "damping per degree of freedom": (
        {"damping": [1.0, 2.0]},
        ["joint 'elbow'", "damping has shape (2,)", "nv = 1"],
    ),
    "limits of the velocity's size": (
        {"joint": rbd.joints.Free(), "lower": np.zeros(6)},
        ["joint 'elbow'", "lower has shape (6,)", "nq = 7"],
    ),
    "armature of the configuration's size": (
        {"joint": rbd.joints.Free(), "armature": np.zeros(7)},
        ["joint 'elbow'", "armature has shape (7,)", "nv = 6"],
    ),
}


@pytest.mark.parametrize("last, words", BAD.values(), ids=BAD)
def test_bad_bodies(unchecked, last, words):
    with pytest.raises(rbd.ModelError) as caught:
        chain(**last)
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in: {caught.value}"


@pytest.mark.parametrize(
    "add, wanted", [("attach", "something that can"), ("add_constraint", "a constraint")]
)
def test_only_what_can_be_attached_is(unchecked, add, wanted):
    builder = chain()
    with pytest.raises(rbd.ModelError, match=f"Spherical'> is a .*, not {wanted}"):
        getattr(builder, add)(rbd.joints.Spherical)
    assert not builder.attached


def test_an_unknown_keyword_is_a_type_error():
    with pytest.raises(TypeError, match="unknown argument 'dampening'; did you mean 'damping'?"):
        chain(dampening=1.0)


@pytest.mark.parametrize("axis", [(0.0, 0.0, 0.0), (0.0, np.nan, 1.0)], ids=str)
def test_an_axis_needs_a_direction(axis):
    with pytest.raises(ValueError, match="Revolute: axis .* has no direction"):
        rbd.joints.Revolute(axis)


def test_a_placement_may_be_a_point():
    here, there = (
        chain(placement=(0.1, 0.0, 0.3)),
        chain(placement=rbd.Transform.from_position(jnp.array([0.1, 0.0, 0.3]))),
    )
    jax.tree.map(np.testing.assert_array_equal, here.build(), there.build())


@pytest.mark.parametrize(
    "last, words",
    {
        "mass": (
            {"inertia": rbd.Inertia.from_parameters(jnp.array([1e39] + [0.0] * 9))},
            "body 'lower': its inertia",
        ),
        "damping": ({"damping": 1e39}, "joint 'elbow': its damping"),
        "limit": ({"lower": -1e39}, "joint 'elbow': its lower"),
    }.values(),
)
def test_numbers_that_the_precision_cannot_hold(last, words):
    """They would be stored as infinite, and a limit as absent."""
    builder = rbd.ModelBuilder(gravity=jnp.zeros(3, jnp.float32))
    builder.add_body("upper")
    with pytest.raises(
        rbd.ModelError, match=f"{words} has the number -?1e.39, which is too large for float32"
    ):
        builder.add_body("lower", "upper", rbd.joints.Revolute(), joint_name="elbow", **last)
    assert len(builder.bodies) == 1


def test_springs_of_joints_that_follow_one_another_balance():
    """Three springs on one coordinate, one through a chain of followers: at rest their torques cancel."""
    builder = rbd.ModelBuilder()
    spring = {"inertia": BALL, "stiffness": 2.0}
    builder.add_body("ball", "world", rbd.joints.Spherical(), inertia=BALL)
    builder.add_body("a", "ball", rbd.joints.Revolute(), **spring, spring_reference=0.3, lower=-1.0)
    builder.add_body("b", "a", rbd.joints.Revolute(), mimic=rbd.Mimic("a", 2.0, 0.1), **spring)
    mimic = rbd.Mimic("b", -1.0)
    builder.add_body("c", "b", rbd.joints.Revolute(), mimic=mimic, upper=0.5, friction=0.1, **spring)
    model = builder.build()
    assert model.topology.leaders == (-1, -1, 1, 1)
    np.testing.assert_allclose(model.stiffness, [0, 0, 0, 2 + 8 + 8])
    np.testing.assert_allclose(model.friction, [0, 0, 0, 0.2])
    np.testing.assert_allclose([model.lower[4], model.upper[4]], [-0.3, np.inf])
    # The energy is the sum of the three.
    energy = lambda x: (x - 0.3) ** 2 + (2 * x + 0.1) ** 2 + (-2 * x - 0.1) ** 2
    rest = float(model.spring_reference[4])
    np.testing.assert_allclose(energy(rest + 0.2) - energy(rest), 9 * 0.2**2, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["chain", "star", "mimic"])
def test_building_takes_time_in_proportion(shape):
    """Building thousands of bodies is linear in time: twice as many take twice as long."""

    def built(n):
        builder = rbd.ModelBuilder()
        for i in range(n):
            parent = "world" if i == 0 else "b0" if shape == "star" else f"b{i - 1}"
            mimic = {"mimic": rbd.Mimic(f"b{i - 1}")} if shape == "mimic" and i else {}
            builder.add_body(f"b{i}", parent, rbd.joints.Revolute(), (0.1, 0.0, 0.0), BALL, **mimic)
        return builder.build()

    def seconds(n):
        begin = time.process_time()
        assert built(n).nb == n
        return time.process_time() - begin

    built(10)
    small, large = (min(seconds(n) for _ in range(3)) for n in (1500, 3000))
    assert large < 2.5 * small


def test_gravity_is_finite():
    with pytest.raises(rbd.ModelError, match="gravity is .*nan.* not finite"):
        rbd.ModelBuilder(gravity=(0.0, 0.0, np.nan))


def test_gravity_is_a_vector():
    with pytest.raises(rbd.ModelError, match=r"gravity has shape \(\); it is an array of shape \(3,\)"):
        rbd.ModelBuilder(gravity=-9.81)


BAD_MIMICS = {
    "nobody": ({"mimic": rbd.Mimic("sholder")}, ["'elbow' mimics 'sholder'", "did you mean 'shoulder'?"]),
    "itself": ({"mimic": rbd.Mimic("elbow")}, ["joint 'elbow' mimics itself"]),
    "of several degrees of freedom": (
        {"mimic": rbd.Mimic("shoulder"), "joint": rbd.joints.Free()},
        ["joint 'elbow' has 6 degrees of freedom", "only joints with one"],
    ),
    "a body instead of a joint": (
        {"mimic": rbd.Mimic("upper")},
        ["'elbow' mimics 'upper', which is no joint"],
    ),
    "infinitely": ({"mimic": rbd.Mimic("shoulder", np.inf)}, ["'elbow'", "multiplier is inf"]),
    "by a vector": (
        {"mimic": rbd.Mimic("shoulder", 1.0, [0.0, 0.0])},
        ["'elbow'", "offset", "one finite number"],
    ),
    "by a word": ({"mimic": rbd.Mimic("shoulder", "twice")}, ["'elbow'", "multiplier is 'twice'"]),
}


@pytest.mark.parametrize("last, words", BAD_MIMICS.values(), ids=BAD_MIMICS)
def test_bad_mimics(last, words):
    builder = chain(**last)
    with pytest.raises(rbd.ModelError) as caught:
        builder.build()
    for word in words:
        assert word in str(caught.value), f"{word!r} is not in: {caught.value}"


def test_a_circle_of_mimics_is_refused():
    builder = chain(mimic=rbd.Mimic("wrist"))
    builder.add_body("hand", "lower", rbd.joints.Revolute(), joint_name="wrist", mimic=rbd.Mimic("elbow"))
    with pytest.raises(rbd.ModelError, match="mimics itself, by way of"):
        builder.build()


def test_followers_of_followers_follow_the_first():
    builder = chain(mimic=rbd.Mimic("wrist", 2.0, 0.5))
    builder.add_body(
        "hand", "lower", rbd.joints.Prismatic(), joint_name="wrist", mimic=rbd.Mimic("shoulder", -3.0, 0.25)
    )
    model = builder.build()
    assert (model.nq, model.nv, model.nb) == (1, 1, 3)
    assert model.topology.leaders == (-1, 0, 0)
    # elbow = 2 wrist + 0.5 = 2 (-3 shoulder + 0.25) + 0.5
    np.testing.assert_allclose(model.mimic_multiplier, [-6, -3])
    np.testing.assert_allclose(model.mimic_offset, [1.0, 0.25])


def test_what_acts_along_a_follower_acts_on_its_leader():
    mimic_joint = {
        "armature": 1.0,
        "damping": 2.0,
        "friction": 3.0,
        "stiffness": 4.0,
        "spring_reference": 0.5,
    }
    limits = {"lower": -1.0, "upper": 3.0}
    model = chain(mimic=rbd.Mimic("shoulder", -2.0, 1.0), **mimic_joint, **limits).build()
    assert [float(getattr(model, name)[0]) for name in ("armature", "damping", "friction", "stiffness")] == [
        4,
        8,
        6,
        16,
    ]
    # The spring 4 (q - 0.5)^2 / 2 at q = -2 x + 1 is 16 (x - 0.25)^2 / 2, and -1 <= -2 x + 1 <= 3 is 1 >= x >= -1.
    assert float(model.spring_reference[0]) == 0.25
    assert (float(model.lower[0]), float(model.upper[0])) == (-1, 1)
    still = chain(mimic=rbd.Mimic("shoulder", 0.0, 1.0), **limits).build()
    assert (float(still.lower[0]), float(still.upper[0])) == (-np.inf, np.inf)


def test_limits_without_end_have_finite_derivatives():
    def reach(multiplier):
        model = chain(mimic=rbd.Mimic("shoulder", multiplier), upper=1.0).build()
        return model.upper[0]

    # half of the mimic joint's range
    value, slope = jax.jit(jax.value_and_grad(reach))(2.0)
    assert float(value) == 0.5 and float(slope) == -0.25


def faulty(**kwargs):
    builder = rbd.ModelBuilder(name="odd")
    builder.add_body("sound", inertia=BALL)
    builder.add_body(
        "thin", inertia=rbd.Inertia.from_mass_com(1.0, jnp.zeros(3), jnp.diag(jnp.array([1.0, 1.0, 3.0])))
    )
    builder.add_body("void", inertia=rbd.Inertia.from_mass_com(0.0, jnp.zeros(3), jnp.eye(3)))
    builder.add_body("turned", inertia=rbd.Inertia.from_mass_com(1.0, jnp.zeros(3), -jnp.eye(3)))
    builder.add_body("massless")
    return builder.build(**kwargs)


def test_inertias_that_no_body_has_are_one_warning():
    with pytest.warns(rbd.ModelWarning) as caught:
        model = faulty()
    assert len(caught) == 1 and model.nb == 5
    message = str(caught[0].message)
    for word in ["'odd'", "'thin': the principal moments 1, 1, 3 break", "'void': rotational inertia 1 without mass",
                 "'turned': the rotational inertia has the negative principal moment -1"]:  # fmt: skip
        assert word in message
    assert "sound" not in message and "massless" not in message
    with pytest.raises(rbd.ModelError, match="'thin'.*'void'.*'turned'.*strict=False"):
        faulty(strict=True)


def test_rounding_is_no_fault():
    """For a small body far from its frame's origin, in single precision, rounding exceeds its own inertia."""
    builder = rbd.ModelBuilder(jnp.zeros(3, jnp.float32))
    builder.add_body(
        "far",
        inertia=jax.tree.map(
            lambda x: x.astype(jnp.float32), rbd.Inertia.sphere(1.0, 0.01, (0.7, 3.0, -2.0))
        ),
    )
    assert builder.build(strict=True).dtype == jnp.float32


@pytest.fixture(scope="module")
def model():
    builder = rbd.ModelBuilder((0.0, 1.0, -9.0), "rover", "levels")
    builder.add_body(
        "hull",
        joint=rbd.joints.Free(),
        inertia=BALL,
        armature=np.arange(6.0),
        damping=0.5,
        lower=-np.arange(7.0),
    )
    for side, axis in (("left", (0.0, 1.0, 0.0)), ("right", (0.0, 2.0, 1.0))):
        builder.add_body(
            f"{side} arm", "hull", rbd.joints.Revolute(axis),
            rbd.Transform.from_xyz_rpy((0.1, 0.2, 0.3), (1.0, 0.0, 0.5)),
            rbd.Inertia.box(2.0, (0.1, 0.2, 0.3), (0.0, 0.5, 0.0)), joint_name=f"{side} shoulder",
            friction=0.1, stiffness=3.0, spring_reference=0.2, upper=2.0, velocity_limit=4.0, effort_limit=5.0,
            mimic=rbd.Mimic("left shoulder", -1.0, 0.1) if side == "right" else None,
        )  # fmt: skip
    builder.add_body("camera", "right arm", inertia=BALL)
    builder.add_body("rock", joint=rbd.joints.Revolute())
    return builder.build()


def test_groups_hold_equal_joints(model):
    kinds = [
        (type(group).__name__, kind.bodies)
        for group, kind in zip(model.joints, model.topology.kinds, strict=True)
    ]
    assert kinds == [("Free", (0,)), ("Revolute", (1, 2, 4)), ("Fixed", (3,))]
    assert model.joints[1].axis.shape == (3, 3)
    assert (model.nq, model.nv) == (9, 8)


def test_describe_is_the_inverse_of_build(model):
    """Book table 4.3."""
    again = rbd.ModelBuilder.from_model(model).build()
    assert again.topology == model.topology and hash(again.topology) == hash(model.topology)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-15), again, model)
    bodies = describe(model)
    assert [body.name for body in bodies] == list(model.body_names)
    assert [body.parent for body in bodies] == ["world", "hull", "hull", "right arm", "world"]
    np.testing.assert_array_equal(bodies[0].armature, np.arange(6.0))
    assert bodies[2].mimic.leader == "left shoulder" and float(bodies[2].mimic.offset) == 0.1


def test_building_is_traced(model):
    def weigh(mass, offset):
        # The masses of the two arms, and the leader's limit: upper of the mimic joint is 2, so -q + offset <= 2.
        builder = chain(
            inertia=BALL + rbd.Inertia.sphere(mass, 0.1), mimic=rbd.Mimic("shoulder", -1.0, offset), upper=2.0
        )
        model = builder.build()
        return jnp.sum(model.inertias.mass) + model.lower[0]

    value, slopes = jax.jit(jax.value_and_grad(weigh, (0, 1)))(3.0, 0.5)
    assert float(value) == 5 + (0.5 - 2) and [float(slope) for slope in slopes] == [1, 1]
    # The conversion to a builder is traceable as well: one program for many models of one topology.
    heavier = eqx.tree_at(lambda m: m.inertias.mass, model, 2 * model.inertias.mass)
    again = jax.jit(lambda m: rbd.ModelBuilder.from_model(m).build())(heavier)
    assert again.topology == model.topology
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-15), again, heavier)


def test_an_empty_model():
    model = rbd.ModelBuilder().build()
    assert (model.nb, model.nq, model.nv, model.joints) == (0, 0, 0, ())


def test_the_drawing(model):
    assert repr(model).splitlines() == [
        "rover: 5 bodies, nq = 9, nv = 8",
        "├─ hull  Free v[0:6], 1 kg",
        "│  ├─ left arm (left shoulder)  Revolute v[6:7], 2 kg",
        "│  └─ right arm (right shoulder)  Revolute, mimics left shoulder, 2 kg",
        "│     └─ camera  Fixed, 1 kg",
        "└─ rock  Revolute v[7:8], massless",
    ]


def test_names_are_found_or_suggested(model):
    assert model.body_index("camera") == 3 and model.body_index(3) == 3
    with pytest.raises(rbd.UnknownNameError, match="'rover' has no body 'cammera'; did you mean 'camera'?"):
        model.body_index("cammera")
    with pytest.raises(rbd.UnknownNameError, match="has no body number 5"):
        model.body_index(5)
    with pytest.raises(
        rbd.UnknownNameError, match="has no joint 'left sholder'; did you mean 'left shoulder'?"
    ):
        model.q_slice("left sholder")


def test_what_is_no_traversal_is_refused_where_it_is_given(unchecked):
    with pytest.raises(ValueError, match="traversal is 'bodies'; it must be one of 'auto'"):
        rbd.ModelBuilder(traversal="bodies")  # pyright: ignore[reportArgumentType]
