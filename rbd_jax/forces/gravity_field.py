"""Nonuniform gravity."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import names, number
from .._core.array import dot, matmul, transpose
from ..lie import SE3
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform
from ._body import BodyForce


class CentralPotential(eqx.Module):
    """The potential `-μ/r` around `center`, outside a ball with the gravitational parameter μ = G M. Singular at the center.

    >>> potential = rbd.forces.CentralPotential(3.986e14)
    >>> print(-jax.grad(potential)(jnp.array([6.378e6, 0.0, 0.0])))
    [-9.799  0.     0.   ]
    """

    parameter: Float[Array, ""]
    center: Float[Array, "3"]

    def __init__(self, parameter, center=(0.0, 0.0, 0.0)):
        self.parameter = number("CentralPotential", "parameter", parameter)
        self.center = number("CentralPotential", "center", center, (3,))

    def __call__(self, position: Float[Array, "3"]) -> Float[Array, ""]:
        """Returns the potential at a point of the world, in J/kg."""
        apart = position - self.center
        return -self.parameter / jnp.sqrt(dot(apart, apart))


class GravityField(BodyForce):
    """The force of a gravitational potential on every body, in addition to the model's own uniform `gravity`.

    The energy of a body is `m φ(c) + tr(Σ ∂²φ)/2`, with its second moment of mass Σ about its center of mass c. This is exact
    to second order in the size of the body. Force and moment are derivatives of this energy, so they conserve energy. The
    second term causes the gravity gradient: in a central field the moment `3 μ/r³ n × I n`.

    `potential` maps a point of the world to J/kg and must be twice differentiable. Pass a `CentralPotential`, a function or an
    `equinox.Module`. `bodies` are the affected bodies, by default all; massless bodies have no force.

    >>> earth = rbd.forces.GravityField(rbd.forces.CentralPotential(3.986e14))
    >>> builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    >>> satellite = builder.add_body("satellite", joint=rbd.joints.Free(), inertia=rbd.Inertia.box(100.0, (1.0, 1.0, 2.0)))
    >>> model = builder.build()
    >>> print(earth(model, rbd.neutral(model).at[0].set(6.778e6), jnp.zeros(6))[3:] / 100.0)
    [-8.676  0.     0.   ]
    """

    potential: Callable[[Float[Array, "3"]], Float[Array, ""]]
    bodies: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, potential, bodies: str | Sequence[str] = ()):
        if not callable(potential):
            raise ValueError(f"GravityField: potential is {potential!r}; it takes a function of a point")
        # A bare function is a leaf that JAX cannot handle.
        bare = jax.tree_util.treedef_is_leaf(jax.tree.structure(potential))
        self.potential = jax.tree_util.Partial(potential) if bare else potential  # pyright: ignore
        self.bodies = names("GravityField", "bodies", bodies) if bodies else ()

    def bound(self, bodies, joints):
        return self if self.bodies else self.changed(bodies=tuple(bodies))

    def attached(self, bodies, frames, joints):
        # The position on a body does not matter, since the field acts on the complete body.
        felt = tuple(body for body in dict.fromkeys(bodies) if body != "world")
        return self.changed(bodies=felt or ("world",))

    def acts_on(self, model):
        return [model.body_index(body) for body in self.bodies or model.body_names if body != "world"]

    def body_wrenches(self, model, bodies):
        still = jnp.zeros(6, bodies.origin.dtype)

        def wrench(frame, inertia):
            return -jax.grad(lambda step: self._energy(frame @ SE3.exp(step), inertia))(still)

        return jax.vmap(wrench)(bodies.world_frames, model.inertias[np.array(self.acts_on(model), int)])

    def body_energy(self, model, bodies):
        return jnp.sum(
            jax.vmap(self._energy)(bodies.world_frames, model.inertias[np.array(self.acts_on(model), int)])
        )

    def _energy(self, frame: Transform, inertia: Inertia) -> Float[Array, ""]:
        rotational = inertia.rotational_com
        square = 0.5 * jnp.trace(rotational) * jnp.eye(3, dtype=rotational.dtype) - rotational
        turned = matmul(matmul(frame.rotation, square), transpose(frame.rotation))
        center = frame.point(inertia.com)
        tide = jax.hessian(self.potential)(center)
        return inertia.mass * self.potential(center) + 0.5 * jnp.sum(turned * tide)
