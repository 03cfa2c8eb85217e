"""Soft contact as MuJoCo has it."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._core.arguments import choice, number, whole_number
from .convex import ConvexLaw
from .soft_rows import AsMujoco


class Soft(ConvexLaw):
    """MuJoCo's contact: all contacts, stops and dry friction of joints and tendons as one convex problem in the acceleration.

    Each of them is a spring and a damper towards the acceleration that it should have, as stiff as `solref` and `solimp` of
    the shapes (and `rbd.contact.Softness` of joints and tendons) say. The problem always has one solution; see `solve_soft`.
    An MJCF file thus moves here as it moves there.

    - `cone`: of friction, `"pyramidal"` or `"elliptic"`.
    - `impratio`: how much stiffer friction is than the normal force.
    - `most`: the maximum number of contacts that act at once, of each number of dimensions; the deepest act. By default all act.
      It saves time where many pairs of moving bodies may touch. If more would act, `Result.CONTACTS_LOST` and `Contacts.lost`
      report it.
    - `pairs`: the maximum number of pairs of shapes of each two kinds whose contact points are computed, those with the nearest
      bounding spheres. By default all are. Pairs with a plane are cheap and do not count. If more might touch, it is reported in
      the same way.
    - `limits`, `friction`: whether the law takes the stops of joints and tendons, and their dry friction. Without it, stops of
      joints are left to `rbd.forces.JointLimit`, and their friction to the scheme.

    Constraints of the model stay hard.

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
        # A time constant of less than two steps would not be followed.
        return AsMujoco(jnp.asarray(0 if timestep is None else 2 * timestep, dtype))
