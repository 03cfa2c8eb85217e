"""MuJoCo's soft contact model."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import choice, number, whole_number
from .convex import ConvexLaw
from .soft_rows import AsMujoco


class Soft(ConvexLaw):
    """MuJoCo's contact model: contacts, limits and dry friction of joints and tendons as one convex problem in the acceleration.

    Each row of the problem is a spring and a damper towards a reference acceleration. The parameters `solref` and `solimp` of
    the shapes, and `rbd.contact.Softness` of joints and tendons, define their stiffness and damping. The problem always has a
    unique solution; see `solve_soft`. A model from an MJCF file therefore moves as in MuJoCo.

    - `cone`: the friction cone, `"pyramidal"` or `"elliptic"`.
    - `impratio`: the ratio of frictional to normal stiffness.
    - `most`: the maximum number of contacts that act at once, for each `condim`; the deepest act. By default all act. A bound
      saves time if many pairs of moving bodies may touch. If more contacts would act, `Result.CONTACTS_LOST` and
      `Contacts.lost` report it.
    - `pairs`: the maximum number of pairs of shapes, for each pair of geometry types, whose contact points are computed. The
      pairs with the nearest bounding spheres are selected. By default all are. Pairs with a plane are cheap and do not count.
      If more pairs might touch, `Result.CONTACTS_LOST` and `Contacts.lost` report it.
    - `limits`: if True, the contact model covers the limits of joints and tendons. Otherwise `rbd.forces.JointLimit` can
      represent joint limits.
    - `friction`: if True, the contact model covers the dry friction of joints and tendons. Otherwise the scheme applies the
      dry friction of joints.

    Hard constraints of the model stay hard.

    >>> builder = rbd.ModelBuilder()
    >>> ball = builder.add_body("ball", joint=rbd.joints.Prismatic(), inertia=rbd.Inertia.sphere(1.0, 0.1))
    >>> shapes = rbd.Shape("ball", "ball", rbd.shapes.Sphere(0.1)), rbd.Shape("floor", "world", rbd.shapes.Plane())
    >>> model = rbd.attach(builder.build(), *shapes, rbd.contact.Soft())
    >>> path = rbd.rollout(model, rbd.State(jnp.array([0.2]), jnp.zeros(1)), dt=0.01, steps=50)
    >>> print(path.q[-1] < 0.1)  # it gives way a little
    [ True]
    """

    as_implicitfast = True

    cone: Literal["pyramidal", "elliptic"] = eqx.field(static=True)
    impratio: Float[Array, ""]
    limits: bool = eqx.field(static=True)
    friction: bool = eqx.field(static=True)
    most: int | None = eqx.field(static=True)
    pairs: int | None = eqx.field(static=True)

    def __init__(
        self,
        cone: Literal["pyramidal", "elliptic"] = "pyramidal",
        impratio: Any = 1.0,
        *,
        limits: bool = True,
        friction: bool = True,
        most: int | None = None,
        pairs: int | None = None,
    ):
        self.cone = choice("Soft", "cone", cone, ("pyramidal", "elliptic"))  # pyright: ignore[reportAttributeAccessIssue]
        self.impratio = number("Soft", "impratio", impratio, above=0)
        self.limits, self.friction = bool(limits), bool(friction)
        self.most = None if most is None else whole_number("Soft", "most", most)
        self.pairs = None if pairs is None else whole_number("Soft", "pairs", pairs)

    def hold(self, model, dtype, step):
        timestep = step if step is not None else model.settings.timestep
        # Steps cannot resolve a time constant of less than two steps.
        return AsMujoco(jnp.asarray(0 if timestep is None else 2 * timestep, dtype))
