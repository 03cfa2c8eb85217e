"""Invalid model parameters are detected after changes, and rejected by simulations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rbd_jax as rbd


def arm():
    builder = rbd.ModelBuilder(name="arm")
    rod = rbd.Inertia.box(1.0, (0.1, 0.1, 1.0), (0.0, 0.0, 0.5))
    builder.add_body("upper", joint=rbd.joints.Revolute(), inertia=rod, joint_name="shoulder")
    builder.add_body("lower", "upper", rbd.joints.Spherical(), inertia=rod, joint_name="elbow")
    return builder.build()


MODEL = arm()


def changed(**numbers):
    return dataclasses.replace(MODEL, **{name: jnp.asarray(x, float) for name, x in numbers.items()})


def with_mass(*masses):
    return dataclasses.replace(MODEL, inertias=dataclasses.replace(MODEL.inertias, mass=jnp.array(masses)))


FAULTS = {
    "mass": (with_mass(1.0, -2.0), "body 'lower': its mass is -2; a mass must be positive or zero"),
    "no mass": (with_mass(np.nan, 1.0), "body 'upper': its inertia has a number that is not finite"),
    "damping": (
        changed(damping=[0, 0, -0.1, 0]),
        "joint 'elbow': its damping is -0.1; it cannot be negative",
    ),
    "friction": (
        changed(friction=[-1, 0, 0, 0]),
        "joint 'shoulder': its friction is -1; it cannot be negative",
    ),
    "armature": (changed(armature=[np.inf, 0, 0, 0]), "its armature is inf, which is not finite"),
    "stiffness": (changed(stiffness=[np.nan, 0, 0, 0]), "joint 'shoulder': its stiffness is nan"),
    "limits": (
        changed(lower=[1] + [-np.inf] * 4, upper=[-1] + [np.inf] * 4),
        "joint 'shoulder': its lower limit 1 is above its upper limit -1",
    ),
    "gravity": (changed(gravity=[0, 0, np.nan]), r"its gravity is \[0.0, 0.0, nan\], which is not finite"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_found_and_refused(name):
    model, message = FAULTS[name]
    with pytest.raises(rbd.ModelError, match=f"^check: model 'arm' is not possible: .*{message}"):
        rbd.check(model)
    with pytest.raises(rbd.ModelError, match=f"^rollout: model 'arm' is not possible: .*{message}"):
        rbd.rollout(model, rbd.State(rbd.neutral(MODEL), jnp.zeros(4)), dt=0.01, steps=1)


def test_all_faults_at_once():
    model = dataclasses.replace(with_mass(-1.0, -2.0), damping=-jnp.ones(4))
    with pytest.raises(rbd.ModelError) as caught:
        rbd.check(model)
    for part in ("'upper': its mass is -1", "'lower': its mass is -2", "'shoulder': its damping is -1"):
        assert part in str(caught.value)


def test_sound_models_pass():
    rbd.check(MODEL)
    rbd.check(rbd.load("quadruped"))
    # Traced values cannot be checked, so nothing is rejected.
    mass = jax.jit(lambda m: (rbd.check(m), m.inertias.mass)[1])(with_mass(-1.0, 1.0))
    assert mass[0] == -1


def test_inertias_of_no_real_body_are_warned_of():
    flat = dataclasses.replace(MODEL.inertias, rotational=MODEL.inertias.rotational.at[1, 5].set(9.0))
    with pytest.warns(
        rbd.ModelWarning, match="'lower': the principal moments .* break the triangle inequality"
    ):
        rbd.check(dataclasses.replace(MODEL, inertias=flat))


def test_only_models(unchecked):
    with pytest.raises(ValueError, match="check: model is a str; it takes a Model"):
        rbd.check("arm7")
