"""Result codes of rollouts for deep initial penetration and for contact solves that do not converge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd
from rbd_jax import contact


def ball(name: str, joint=None) -> rbd.Model:
    builder = rbd.ModelBuilder(name=name)
    builder.add_body("ball", "world", joint or rbd.joints.Free(), None, rbd.Inertia.sphere(0.5, 0.1))
    builder.attach(
        rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1)),
        rbd.Shape("floor", "world", rbd.shapes.Plane()),
        contact.Soft(),
    )
    return builder.build()


def at(model, height):
    return rbd.State(model.reference.at[2].set(height), jnp.zeros(model.nv))


@pytest.fixture(scope="module")
def paths():
    """Returns paths of a ball that starts above the floor, slightly in it, half in it, and completely below it."""
    model = ball("sunk", rbd.joints.Prismatic((0, 0, 1)))
    starts = rbd.State(np.array([[0.3], [0.09], [0.05], [-0.3]]), np.zeros((4, 1)))
    run = jax.jit(rbd.batch_map(lambda state: rbd.rollout(model, state, dt=0.005, steps=60)))
    return jax.tree.map(np.asarray, run(starts))


def test_a_start_deep_in_another_shape_is_told_of_each_sample(paths):
    assert [rbd.Result(code).name for code in paths.code] == [
        "SUCCESS",
        "SUCCESS",
        "OVERLAPPING",
        "OVERLAPPING",
    ]
    assert list(paths.failed_step) == [-1, -1, 0, 0]
    assert np.isfinite(paths.q).all()
    assert "rbd.contact.separated(model, q)" in rbd.Result.OVERLAPPING.message


@pytest.mark.slow
def test_what_is_pressed_in_on_the_way_is_no_start():
    """A batch is simulated row by row: a ball that has hit the floor hard is deep in it when the next row starts."""
    model = ball("thrown")
    starts = jax.vmap(lambda height: at(model, height))(jnp.array([0.2, 0.05]))
    starts = rbd.State(starts.q, starts.v.at[0, 5].set(-12.0))
    path = rbd.simulate_batch(model, starts, dt=0.005, steps=12, frames=12)
    assert path.q[0, :, 2].min() < 0.1 - 0.25 * 0.1
    assert [rbd.Result(code).name for code in np.asarray(path.code)] == ["SUCCESS", "OVERLAPPING"]
    assert list(path.failed_step) == [-1, 0]


@pytest.mark.slow
def test_what_it_says_helps():
    model = ball("sunk")
    q = contact.separated(model, at(model, 0.05).q)
    assert rbd.contacts(model, q).distance.min() > -1e-6
    path = rbd.rollout(model, rbd.State(q, jnp.zeros(6)), dt=0.005, steps=5)
    assert path.code == 0


@pytest.mark.slow
@pytest.mark.parametrize("made", [lambda model: model, lambda model: rbd.ReducedModel(model, lambda y: y, 1)])
def test_a_search_that_ends_without_forces_is_told(made):
    class Vain(contact.Soft):
        def reaction(self, *args, **kwargs):
            found = super().reaction(*args, **kwargs)
            return found._replace(converged=found.converged & (found.contacts.distance[0] > 0))

    builder = rbd.ModelBuilder(name="vain")
    builder.add_body("ball", "world", rbd.joints.Prismatic((0, 0, 1)), None, rbd.Inertia.sphere(0.5, 0.1))
    builder.attach(
        rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1)),
        rbd.Shape("floor", "world", rbd.shapes.Plane(), (0, 0, -0.1)),
        Vain(),
    )
    model = made(builder.build())
    starts = [rbd.State(jnp.array([height]), jnp.zeros(1)) for height in (0.2, 0.0005)]
    paths = [rbd.rollout(model, start, dt=0.005, steps=4) for start in starts]
    assert [rbd.Result(int(path.code)).name for path in paths] == ["SUCCESS", "CONTACTS_UNSOLVED"]
    assert paths[1].failed_step == 2 and np.isfinite(paths[1].q).all()


class Doubtful(rbd.LieEuler):
    """A scheme whose code is known before the step."""

    def step(self, here, memory, dt):
        new, memory, _ = super().step(here, memory, dt)
        return new, memory, np.int32(rbd.Result.CONTACTS_UNSOLVED)


def test_a_warning_of_a_scheme_keeps_the_states():
    model, start = rbd.load("pendulum"), rbd.State(jnp.array([0.5]), jnp.zeros(1))
    path = rbd.rollout(model, start, dt=0.01, steps=3, scheme=Doubtful())
    assert path.code == rbd.Result.CONTACTS_UNSOLVED and path.failed_step == 0
    np.testing.assert_array_equal(
        path.q, rbd.rollout(model, start, dt=0.01, steps=3, scheme=rbd.LieEuler()).q
    )
