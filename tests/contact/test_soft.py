"""Soft contact against MuJoCo on the same scenes, and under all schemes and systems."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose
from support import assert_close, quotient

import rbd_jax as rbd
from rbd_jax import contact


#: Contacts in 1, 3, 4 and 6 dimensions, joint limits, dry friction, an exclusion, a pair, and bodies that touch each
#: other.
SCENE = """<mujoco>
<option cone="{cone}" impratio="{ratio}" solver="Newton" tolerance="1e-14" iterations="200" ls_iterations="100" timestep="0.004"/>
<worldbody><geom name="floor" type="plane" size="3 3 1" friction=".7 .01 .002"/>
<site name="ground" type="box" size="1 .2 .1"/>
<body name="cart" pos="0 0 .28"><freejoint/><geom size=".1" pos="0 0 -.2"/>
  <site name="foot" type="ellipsoid" size=".1 .12 .11" pos="0 0 -.2"/>
  <geom type="capsule" size=".05 .2" pos=".4 0 -.25" euler="0 80 0" condim="4"/>
  <body name="arm" pos=".5 0 .1"><joint name="stop" axis="0 1 0" range="-10 10" solreflimit=".03 .8" margin="1e-4"
     frictionloss=".3" solreffriction=".05 1"/><geom type="capsule" size=".1 .1" pos=".3 0 -.32"/></body></body>
<body name="ball" pos="-.5 0 .2"><freejoint/><geom name="ball" size=".21" condim="6" friction=".9 .02 .01"/>
  <site name="under" type="capsule" size=".05 .1" pos="0 0 -.18"/></body>
<body name="mate" pos="-.5 .41 .2"><freejoint/><geom name="mate" size=".21" condim="1" priority="0"/></body>
<body name="ghost" pos="-.5 .3 .7"><freejoint/><geom name="ghost" size=".31"/></body>
<body name="rubbing" pos="1 0 1"><site name="eye" pos="0 0 -.3"/><joint name="rubs" axis="0 1 0" frictionloss="2"/>
  <geom type="capsule" size=".03 .2" pos="0 0 -.2" contype="0" conaffinity="0"/></body>
<site name="hook" pos="1.3 .2 1.3"/></worldbody>
<tendon><fixed name="sum" range="-.1 .2" margin=".25" solreflimit=".04 .9"><joint joint="rubs" coef=".7"/>
  <joint joint="stop" coef="-.4"/></fixed>
<spatial name="string" range=".1 .6" frictionloss=".6" solimpfriction=".8 .9 .01 .5 2">
  <site site="hook"/><site site="eye"/></spatial>
<spatial name="rope" frictionloss=".2"><site site="hook"/><site site="foot"/></spatial></tendon>
<sensor><touch site="foot"/><touch name="under" site="under"/><touch site="eye"/><touch name="floor" site="ground"/></sensor>
<contact><exclude body1="ghost" body2="mate"/><pair geom1="ghost" geom2="ball" condim="3" friction="1 .5 .01 .001 .001"
  margin=".02" gap=".001" solref=".03 1"/></contact></mujoco>"""


@pytest.fixture(scope="module", params=["pyramidal", pytest.param("elliptic", marks=pytest.mark.slow)])
def scene(request):
    """Returns the scene with one cone in both libraries, and a function of its state with accelerations and contacts."""
    text = SCENE.format(cone=request.param, ratio=3)
    model, theirs = rbd.load_mjcf(text, contact=True), mujoco.MjModel.from_xml_string(text)
    both = jax.jit(lambda model, state: (rbd.acceleration(model, state), rbd.contact_forces(model, state)))
    return model, theirs, rbd.interop.MujocoMap(model, theirs), both


def moved(theirs, seed):
    data, rng = mujoco.MjData(theirs), np.random.default_rng(seed)
    if seed:
        step = np.zeros(theirs.nv) + 0.01 * rng.normal(size=theirs.nv)
        mujoco.mj_integratePos(theirs, data.qpos, step, 1.0)
        data.qvel[:] = rng.normal(size=theirs.nv)
    mujoco.mj_forward(theirs, data)
    return data


@pytest.mark.slow
def test_accelerations_and_contacts_are_those_of_mujoco(scene):
    for seed in range(3):  # in one test, because each worker compiles separately
        compare(*scene, seed)


def compare(model, theirs, to, both, seed):
    data = moved(theirs, seed)
    state = to.state(data)
    a, found = both(model, state)
    assert_close(to.acceleration(state.q, state.v, a), data.qacc, 1e-8)
    assert_close(rbd.sense(model, state).vector, data.sensordata, 1e-7)
    assert (data.sensordata > 0).sum() >= 2 and data.ncon == found.active.sum() >= 5
    shown, force = [], np.zeros(6)
    for index in range(data.ncon):
        one = data.contact[index]
        names = {model.shapes[geom].name for geom in one.geom}
        [near] = [
            row
            for row in np.flatnonzero(found.active)
            if set(found.shapes[found.pair[row]]) == names
            and np.abs(found.position[row] - one.pos).max() < 1e-6
        ]
        mujoco.mj_contactForce(theirs, data, index, force)
        assert_allclose(found.distance[near], one.dist, atol=1e-9)
        assert_allclose(found.friction[near], one.friction, atol=1e-12)
        assert_allclose(found.frame[near].T.ravel(), one.frame, atol=1e-9)
        assert_allclose(found.force[near], force, atol=1e-6 * max(1, np.abs(force).max()))
        shown.append(near)
    assert len(set(shown)) == data.ncon


@pytest.mark.slow
def test_single_precision(scene):
    model, theirs, to, both = scene
    if model.attached_as("contact law")[0].cone == "elliptic":
        pytest.skip("one cone is enough")
    state = to.state(moved(theirs, 0))
    expected = both(model, state)[0]
    single = jax.tree.map(lambda x: x.astype(jnp.float32), state)
    found = rbd.acceleration(rbd.astype(model, jnp.float32), single)
    assert found.dtype == jnp.float32
    assert_close(found, expected, 2e-3)


def test_the_file_that_is_written_says_the_same(scene):
    model, theirs, to, both = scene
    back = rbd.load_mjcf(rbd.to_mjcf(model, strict=True), contact=True)
    for role in ("contact law", "contact pair", "contact exclusion", "softness", "tendon", "sensor"):
        one, other = model.attached_as(role), back.attached_as(role)
        assert len(one) == len(other) == {"softness": 3, "tendon": 3, "sensor": 4}.get(role, 1)
        assert jax.tree.structure(one) == jax.tree.structure(other)
        assert all(map(np.allclose, jax.tree.leaves(one), jax.tree.leaves(other)))


# A ball above a floor that bounces, slides and spins up.

BALL = contact.Soft("elliptic")


def ball(*things, shape=None, **numbers):
    builder = rbd.ModelBuilder(name="ball")
    joint = rbd.joints.Free()
    builder.add_body("ball", "world", joint, None, rbd.Inertia.sphere(1.0, 0.1))
    round_ = rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1), friction=(0.5, 0.005, 1e-4), **numbers)
    builder.attach(shape or round_, rbd.Shape("floor", "world", rbd.shapes.Plane()), *things)
    return builder.build()


def thrown(model, height=0.15, v=(0.0, 0.0, 0.0, 0.5, 0.0, -1.0)):
    q = jnp.asarray(model.reference).at[2].set(height)
    return rbd.State(q, jnp.asarray(v))


def above(model, height):
    """Returns the configuration of a ball at a given height."""
    q = np.array(model.reference)
    q[2] = height
    return jnp.asarray(q)


def test_nothing_touches_without_a_law():
    start = rbd.State(above(ball(), 0.15), np.array([0.0, 0.0, 0.0, 0.5, 0.0, -1.0]))
    path = rbd.rollout(ball(), start, dt=0.01, steps=50)
    assert np.asarray(path.q)[-1, 2] < -1


@pytest.mark.slow
def test_a_ball_lies_on_the_floor_and_rolls_at_five_sevenths():
    model = ball(BALL)
    path = rbd.rollout(model, thrown(model, 0.1, (0, 0, 0, 1.0, 0, 0)), dt=0.002, steps=500)
    assert path.code == 0
    assert_allclose(path.v[-1, 3:] @ path.v[-1, 3:], (5 / 7) ** 2, rtol=5e-3)
    found = path.contacts(model)
    assert found.force.shape == (500, 1, 6)
    assert_allclose(found.force[-1, 0, 0], 9.81, rtol=1e-3)
    # Sensors on the ball measure the contact force.
    carried = rbd.attach(model, rbd.Site("centre", "ball"), rbd.sensors.Accelerometer("felt", "centre"))
    assert_allclose(np.linalg.norm(rbd.sense(carried, path.final)["felt"]), 9.81, rtol=2e-2)


#: The ball's position after 0.2 s, computed with steps of 1e-5 s.
LANDED = (0.07795, 0.0, 0.09964)


@pytest.mark.slow
@pytest.mark.parametrize(
    "scheme",
    [
        rbd.RungeKutta4(),
        rbd.LinearlyImplicitEuler(),
        rbd.SemiImplicitEuler(passive="explicit"),
        rbd.GeneralizedAlpha(),
        rbd.ImplicitMidpoint(),
        rbd.VariationalMidpoint(),
        rbd.BDF1(),
        rbd.BDF2(),
        rbd.RKMK3(),
        rbd.LieEuler(),
    ],
    ids=lambda scheme: type(scheme).__name__,
)
def test_every_scheme_lands_alike(scheme):
    model = ball(BALL)
    state = thrown(model)
    path = rbd.rollout(model, state, dt=0.001, steps=200, scheme=scheme)
    assert path.code == 0
    assert_allclose(path.q[-1, :3], LANDED, atol=1e-3)


@pytest.mark.slow
def test_gradients_are_differences_through_a_bounce():
    model = ball(BALL)

    def landed(change):
        shapes = (one.changed(contact=one.contact * (1 + change[1])) for one in model.shapes)
        other = rbd.attach(rbd.detach(model, "shape"), *shapes)
        return rbd.rollout(other, thrown(other, 0.15 + change[0]), dt=0.004, steps=75).q[-1]

    with_slopes = jax.jit(lambda at: (landed(at), jax.jacfwd(landed)(at)))
    at = jnp.zeros(2)
    slopes = with_slopes(at)[1]
    for k in range(2):
        expected = quotient(lambda h, k=k: with_slopes(at.at[k].set(h))[0], 1e-6)
        assert_allclose(slopes[:, k], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_in_batches_with_derivatives():
    model = ball(BALL)

    def along(height, push):
        state = thrown(model, height, jnp.zeros(6).at[3].set(push))
        return jnp.sum(rbd.acceleration(model, state) ** 2)

    heights, pushes = jnp.array([0.05, 0.0999, 0.1, 0.2]), jnp.array([0.0, 0.1, 0.0, 1.0])
    both = jax.jit(jax.vmap(jax.value_and_grad(along)))
    value, slope = both(heights, pushes)
    assert np.isfinite(value).all() and np.isfinite(slope).all()
    expected = (both(heights + 1e-7, pushes)[0] - both(heights - 1e-7, pushes)[0]) / 2e-7
    smooth = jnp.array([0, 1, 3])  # not where they only just touch
    assert_allclose(slope[smooth], expected[smooth], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_second_derivatives():
    model = ball(BALL)

    def along(height, push):
        state = thrown(model, height, jnp.zeros(6).at[3].set(push))
        return jnp.sum(rbd.acceleration(model, state) ** 2)

    at = jnp.array([0.05, 0.0999]), jnp.array([0.0, 0.1])
    found = jax.jit(jax.vmap(jax.hessian(along)))(*at)
    slope = jax.jit(jax.vmap(jax.grad(along)))
    assert_allclose(
        found, (slope(at[0] + 1e-7, at[1]) - slope(at[0] - 1e-7, at[1])) / 2e-7, rtol=1e-4, atol=1e-6
    )


# Two coupled slides, as a reduced model and with a hard constraint.


@pytest.mark.slow
def test_hard_constraints_and_reduced_models_touch_alike():
    builder = rbd.ModelBuilder(name="slider")
    builder.add_body(
        "x", "world", rbd.joints.Prismatic((1, 0, 0)), None, rbd.Inertia.sphere(0.5, 0.1), upper=0.02
    )
    builder.add_body(
        "z", "x", rbd.joints.Prismatic((0, 0, 1)), None, rbd.Inertia.sphere(1.0, 0.1), friction=0.7
    )
    builder.attach(
        rbd.Shape("ball", "z", rbd.shapes.Sphere(0.1)),
        rbd.Shape("floor", "world", rbd.shapes.Plane(), (0, 0, -0.101)),
        contact.Soft(),
    )
    tree = builder.build()
    tied = rbd.add_constraints(tree, rbd.constraints.CoordinateCoupling({"x": [0, -2], "z": [0, 1]}))
    reduced = rbd.ReducedModel(tree, lambda y: jnp.concatenate([0.5 * y, y]), 1)
    height = -0.005
    whole = rbd.rollout(tied, rbd.State(jnp.array([0.5 * height, height]), jnp.zeros(2)), dt=0.002, steps=100)
    few = rbd.rollout(reduced, rbd.State(jnp.array([height]), jnp.zeros(1)), dt=0.002, steps=100)
    assert whole.code == few.code == 0
    assert_allclose(whole.q[:, 1], few.q[:, 0], atol=1e-8)
    assert_allclose(whole.q[:, 0], 0.5 * whole.q[:, 1], atol=1e-10)
    assert whole.q[:, 1].min() > -0.01  # it rests on the floor


HOPPER = """<mujoco><option timestep="0.002" integrator="implicitfast"/><worldbody><geom type="plane" size="3 3 1"/>
<body pos="0 0 .8"><freejoint/><geom type="capsule" size=".1 .1" density="500"/>
  <body pos="0 0 -.15"><joint name="hip" axis="0 1 0" range="-60 60" damping="1" stiffness="20" springref="30"/>
    <geom type="capsule" fromto="0 0 0 .1 0 -.3" size=".04"/>
    <body pos=".1 0 -.3"><joint name="knee" axis="0 1 0" range="-100 -10" damping=".5" frictionloss=".1"/>
      <geom type="capsule" fromto="0 0 0 -.1 0 -.3" size=".03"/></body></body></body>
</worldbody><actuator><position joint="hip" kp="50" kv="2"/></actuator></mujoco>"""


@pytest.mark.slow
def test_a_dropped_hopper_moves_as_there():
    model, theirs = rbd.load_mjcf(HOPPER, contact=True), mujoco.MjModel.from_xml_string(HOPPER)
    theirs.opt.tolerance, theirs.opt.iterations = 1e-14, 200
    data, to = mujoco.MjData(theirs), rbd.interop.MujocoMap(model, theirs)
    data.qvel[:3] = (0.3, 0.2, 0.0)
    data.qvel[3:6] = (0.5, 0.2, 1.0)
    mujoco.mj_forward(theirs, data)
    path = rbd.rollout(model, to.state(data), rbd.Controls(jnp.full((250, 1), 0.2)), steps=250)
    data.ctrl[:] = 0.2
    touched = 0
    for row in range(250):
        mujoco.mj_step(theirs, data)
        touched += data.ncon > 0
        assert_allclose(to.configuration(path.q[row + 1]), data.qpos, atol=1e-8)
    assert touched > 50


# Limits on the number of active contacts.


@pytest.fixture(scope="module")
def boxes():
    """Returns a box on its side without a limit, with the number of active contacts as the limit, and with a smaller one."""
    side = rbd.Shape("box", "ball", rbd.shapes.Box((0.1, 0.15, 0.05)))
    return {most: ball(contact.Soft(most=most), shape=side) for most in (None, 4, 3)}


def sunk(model, depth=0.004):
    return rbd.State(model.reference.at[2].set(0.05 - depth), jnp.zeros(model.nv))


@pytest.mark.slow
def test_as_many_contacts_as_act_are_enough(boxes):
    enough, few = (rbd.rollout(boxes[most], sunk(boxes[most]), dt=0.004, steps=30) for most in (4, 3))
    assert enough.code == 0
    assert_allclose(enough.q[-1, 3:], (1, 0, 0, 0), atol=1e-9)
    assert rbd.Result(few.code) is rbd.Result.CONTACTS_LOST and "most" in rbd.Result(few.code).message
    assert np.isfinite(few.q).all() and few.failed_step == 0
    found = few.contacts(boxes[3])
    assert found.lost.shape == (30,) and found.lost[0] == 1 and found.distance.shape == (30, 3)


@pytest.mark.slow
def test_a_bound_in_batches_with_derivatives(boxes):
    def pushed(model, depth):
        return jnp.sum(rbd.acceleration(model, sunk(model, depth)) ** 2)

    depth = jnp.array([0.004, -0.5])
    both = {
        most: jax.vmap(jax.value_and_grad(lambda depth, m=model: pushed(m, depth)))(depth)
        for most, model in boxes.items()
    }
    assert_allclose(both[4][0], both[None][0], rtol=1e-9)
    assert_allclose(both[4][1], both[None][1], rtol=1e-7, atol=1e-6)
    assert np.isfinite(both[3][1]).all()
    with pytest.raises(ValueError, match="Soft: most is 0"):
        contact.Soft(most=0)


# Models with a contact model.


def test_two_robots_in_one_world_have_one_law():
    two = rbd.concatenate(ball(BALL), ball(BALL), names=["a", "b"])
    assert two.attached_as("contact law") == (two.attached_as("contact law")[0],)
    assert ("a/ball", "b/floor") in rbd.contacts(two, two.reference).shapes
    with pytest.raises(rbd.ModelError, match="a model can have only one contact law, and it already has one"):
        rbd.concatenate(ball(BALL), ball(contact.Soft()), names=["a", "b"])
    with pytest.raises(rbd.ModelError, match="one contact law"):
        rbd.attach(two, BALL)


def test_pairs_and_exclusions():
    model = ball(contact.ContactPair("both", "ball", "floor", condim=1, margin=0.5), BALL)
    found = rbd.contacts(model, above(model, 0.15))
    assert (
        found.shapes == (("ball", "floor"),) and found.condim == (1,) and found.margin == 0.5 and found.active
    )
    model = ball(contact.ContactExclusion("none", ("ball", "world")), BALL)
    assert rbd.contacts(model, model.reference).shapes == ()
    falling = rbd.acceleration(model, rbd.State(above(model, 0.05), np.zeros(6)))
    assert_allclose(np.asarray(falling)[5], -9.81)
    assert "ContactExclusion" in repr(model.attached_as("contact exclusion"))
    with pytest.raises(rbd.UnknownNameError, match="no shape 'bal'; did you mean 'ball'"):
        ball(contact.ContactPair("both", "bal", "floor"))
    with pytest.raises(rbd.ModelError, match="both shapes are 'ball'"):
        contact.ContactPair("both", "ball", "ball")
    with pytest.raises(rbd.ModelError, match="condim is 2; it is 1, 3, 4 or 6"):
        contact.ContactPair("both", "ball", "floor", condim=2)


def test_what_softness_is_of():
    rope = rbd.forces.SpatialTendon("rope", [("world", (0, 0, 1)), ("ball", (0, 0, 0))], limits=(0.1, 0.8))
    soft = contact.Softness(tendon="rope", margin=0.1)
    two = rbd.concatenate(ball(rope, soft, BALL), ball(BALL), names=["a", "b"])
    assert two.attached_as("softness")[0].tendon == "a/rope" and "Softness" in repr(soft)
    for given in ({}, {"joint": "ball", "tendon": "rope"}):
        with pytest.raises(rbd.ModelError, match="pass either a joint or a tendon"):
            contact.Softness(**given)
    with pytest.raises(rbd.UnknownNameError, match="no tendon 'string'"):
        ball(contact.Softness(tendon="string"))
    with pytest.raises(rbd.ModelError, match=r"limits is \[2.0, 1.0\]; exchange the two"):
        rbd.forces.FixedTendon("sum", {"hinge": 1.0}, limits=(2.0, 1.0))
    with pytest.raises(ValueError, match="friction is -1.0; it cannot be less than 0"):
        rbd.forces.FixedTendon("sum", {"hinge": 1.0}, friction=-1.0)


@pytest.mark.slow
def test_a_rope_holds_what_hangs_on_it():
    rope = rbd.forces.SpatialTendon("rope", [("world", (0, 0, 1)), ("ball", (0, 0, 0))], limits=(0.0, 0.8))
    model = ball(rope, BALL)
    path = rbd.rollout(model, thrown(model, 0.3, (0,) * 6), dt=0.002, steps=500)
    assert path.code == 0
    assert_allclose(path.q[-1, :3], (0, 0, 0.2), atol=2e-3)
    assert_allclose(rbd.acceleration(model, path.final), 0, atol=1e-2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: contact.Soft("round"),
        lambda: contact.Soft(impratio=0.0),
        lambda: contact.Softness("hinge", solref=(1.0, 2.0, 3.0)),
        lambda: contact.ContactPair("both", "a", "b", friction=(1, 1, 1, 1, -1)),
    ],
)
def test_what_no_contact_is(make, unchecked):
    with pytest.raises(ValueError, match="Soft|ContactPair"):
        make()
