"""Gravity that is not the same everywhere."""

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
    """`-μ/r` around `center`: the potential outside a ball of the gravitational parameter μ = G M. Singular at the centre.

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
        """The potential at a point of the world, in J/kg."""
        apart = position - self.center
        return -self.parameter / jnp.sqrt(dot(apart, apart))


class GravityField(BodyForce):
    """The pull of a gravitational potential on every body, besides the model's own uniform `gravity`.

    The energy of a body is `m φ(c) + tr(Σ ∂²φ)/2`, with Σ its second moment of mass about its centre of mass c: exact to
    the second order in the size of the body. Force and moment are the derivatives of that, so they conserve energy. Of
    the second term comes the gravity gradient: in a central field the moment `3 μ/r³ n × I n`.

    `potential` maps a point of the world to J/kg and must be twice differentiable: a `CentralPotential`, or a function
    or `equinox.Module` of your own. `bodies` are those that feel it, all by default; those without mass feel nothing.

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
        # A function as such is a leaf that JAX cannot handle.
        bare = jax.tree_util.treedef_is_leaf(jax.tree.structure(potential))
        self.potential = jax.tree_util.Partial(potential) if bare else potential  # pyright: ignore
        self.bodies = names("GravityField", "bodies", bodies) if bodies else ()

    def bound(self, bodies, joints):
        return self if self.bodies else self.changed(bodies=tuple(bodies))

    def attached(self, bodies, frames, joints):
        # Where on a body does not matter: the field pulls at all of it.
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
