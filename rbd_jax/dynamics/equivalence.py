"""Inertias that no motion tells apart (book §9.7): what may pass between two bodies, and the base parameters that are left.

An inertia I_Δ taken from a body and given to its parent changes nothing if the joint between them does not see it: `I_Δ S = 0`
and `I_Δ = X_Jᵀ I_Δ X_J` in every position (9.30; the third condition there follows from the second). Table 9.7 has the
solutions for three joints. They are those for a parent that moves at will. Near a base that is fixed it does not, and more is
lost. Let the columns of U be the ways in which the parent moves, and gravity as one more, and `W = X_J U`. Then B taken from a
body and A given to its parent cancel if, in every configuration,

    Sᵀ B S = 0,    Sᵀ B W = 0,    Wᵀ B W = Uᵀ A U.

The first two are the joint's own rows of the mass matrix and of the gravity forces, the third what is left of the others. A may
be B where it is in any one position of the joint. From the leaves to the root these pairs are all that no motion sees. In the
rows of a leaf's joint nothing but B appears; what B does to the other rows depends on the position of this joint, unless the
third holds with some A; and with the pair taken away, the parent is a leaf. So the rules of the single joints make the whole.
The other way to find it, `base_parameters_by_rank`, asks the regressor, and must give the same.
"""

from __future__ import annotations

import math
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._core.arguments import a_model, accuracy, instance, whole_number
from .._core.array import floating, is_known, matvec, transpose, vecmat
from .._core.errors import ModelError
from ..joints import Joint
from ..model import Model, neutral, random_configuration
from ..model.lumping import with_inertias_added
from ..spatial import cross_force_matrix, cross_motion_matrix
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform
from .motion import Motion
from .regressor import inverse_dynamics_regressor, momentum_matrix


#: The ten parameters of a body by name, in their order.
PARAMETERS = ("m", "hx", "hy", "hz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
#: How many configurations the conditions of a joint are asked in. Each gives one equation for ten unknowns at the very least.
CONFIGURATIONS = 24
#: A parameter is set aside for one that comes before it if what is left of both is alike to this factor.
PREFERENCE = 0.3


class BaseParameters(eqx.Module):
    """The inertia parameters that the motion of a model depends on, as sums of all of its parameters.

    There are 10 nb parameters θ, as in `inverse_dynamics_regressor`; n of them are kept, and the others grouped with these.

    - `grouping`: K with `Y θ = Y[:, kept] K θ` for every motion.
    - `unobservable`: an orthonormal basis of those θ with `Y θ = 0`, a row each.
    - `kept`: the columns of Y that are kept, the n base parameters stand for them.
    - `names`: of the base parameters: the body and the parameter with which others are grouped; `h = m c` is the first moment.

    Where the joints are and where gravity pulls are constants here, the inertias are not: `of` and `simplified` take models with
    any, and are differentiated by them. Another geometry has other base parameters.

    >>> base = rbd.base_parameters(rbd.load("double_pendulum"))
    >>> print(base.count, base.names)
    6 ('upper hx', 'upper hz', 'upper Iyy', 'lower hx', 'lower hz', 'lower Iyy')
    """

    grouping: Float[Array, "n parameters"]
    unobservable: Float[Array, "lost parameters"]
    kept: tuple[int, ...] = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.kept)

    def of(self, model: Model) -> Float[Array, "n"]:
        """The base parameters of a model of the same geometry."""
        return matvec(self.grouping, self._parameters(model))

    def columns(self, regressor: Float[Array | np.ndarray, "*rows parameters"]) -> Float[Array, "*rows n"]:
        """Of a regressor of the inverse dynamics those columns that the base parameters go with. They are independent."""
        return jnp.asarray(regressor)[..., np.array(self.kept, int)]

    def simplified(self, model: Model) -> Model:
        """The model with as few parameters as there can be: the base parameters where they are kept, and zeros (book §9.7).

        Under the same forces it moves as before. What its joints bear is another, as is the momentum of what is tied to the
        world; masses may be zero or negative.
        """
        spread = np.zeros((self.grouping.shape[1], self.count))
        spread[list(self.kept), np.arange(self.count)] = 1
        parameters = matvec(jnp.asarray(spread, model.dtype), self.of(model))
        return replace(model, inertias=Inertia.from_parameters(parameters.reshape(-1, 10)))

    def _parameters(self, model: Model) -> Float[Array, "parameters"]:
        a_model("BaseParameters", model)
        if 10 * model.nb != self.grouping.shape[1]:
            raise ModelError(
                f"BaseParameters: model {model.name!r} has {model.nb} bodies, and these are of a model with "
                f"{self.grouping.shape[1] // 10}"
            )
        return model.inertias.parameters.reshape(-1)


def transferable_inertias(joint: Joint) -> Inertia:
    """What may pass across a joint, whatever bodies it joins: a basis of the I_Δ of book table 9.7, in its successor frame.

    A batch of inertias. Each combination of them may be taken from one of the two bodies and given to the other, in any
    position of the joint; `transfer_inertia` does it. For a hinge they are those of masses on its axis, three, with their mass,
    their first moment and their turning; for a slide all rotational inertias, six; for a ball a mass in its centre; none for a
    free body, all ten for a weld. Joints whose S changes with q have theirs, too. Not to be called under `jit`.

    >>> for inertia in rbd.dynamics.transferable_inertias(rbd.joints.Revolute()).parameters:
    ...     print(inertia)
    [1. 0. 0. 0. 0. 0. 0. 0. 0. 0.]
    [0. 0. 0. 1. 0. 0. 0. 0. 0. 0.]
    [0. 0. 0. 0. 1. 0. 1. 0. 0. 0.]
    """
    instance("transferable_inertias", "joint", joint, Joint, "a joint of rbd.joints")
    _refuse_rheonomic("transferable_inertias", "the joint", joint.rheonomic)

    def conditions(key):
        basis = momentum_matrix(jnp.eye(6))  # column j of the matrix of an inertia, by its parameters
        matrices = jnp.moveaxis(basis, 0, -1)  # (6, 10, 6)
        s = joint.motion_subspace(joint.random(key))
        felt = jnp.einsum("ipj,js->isp", matrices, s, precision="highest")
        # The rate of Xᵀ I X as the joint moves, seen from the successor.
        along, against = jax.vmap(cross_force_matrix)(s.T), jax.vmap(cross_motion_matrix)(s.T)
        turned = jnp.einsum("sij,jpk->sikp", along, matrices, precision="highest")
        turned = turned - jnp.einsum("ipj,sjk->sikp", matrices, against, precision="highest")
        return jnp.concatenate([felt.reshape(-1, 10), turned.reshape(-1, 10)])

    draw = lambda: jax.vmap(conditions)(jax.random.split(jax.random.key(0), CONFIGURATIONS)).reshape(-1, 10)
    null = _null_space(_looked_at("transferable_inertias", jax.jit(draw)()))
    return Inertia.from_parameters(floating(echelon_basis(null, [range(10)])[0]))


def transfer_inertia(model: Model, body: str | int, inertia: Inertia) -> Model:
    """The model with an inertia taken from a body and given to its parent, where it is when the joint is at its zero.

    `inertia` is in the frame of the body. The motion is the same if it is a combination of `transferable_inertias(joint)`, and
    with any other it may change. What is given to the world is gone.

    A mass on the axis of the elbow, taken from the lower arm:

    >>> model, q, v, a = rbd.load("double_pendulum"), jnp.array([0.5, 1.0]), jnp.array([1.0, 2.0]), jnp.ones(2)
    >>> mass = rbd.Inertia.from_mass_com(1.0, jnp.zeros(3), jnp.zeros((3, 3)))
    >>> other = rbd.dynamics.transfer_inertia(model, "lower", mass)
    >>> print(other.inertias.mass, rbd.inverse_dynamics(other, q, v, a) - rbd.inverse_dynamics(model, q, v, a))
    [2. 0.] [0. 0.]
    """
    a_model("transfer_inertia", model)
    index = model.body_index(body)
    instance("transfer_inertia", "inertia", inertia, Inertia, "an Inertia")
    if inertia.mass.shape:
        raise ModelError(f"transfer_inertia: inertia is a batch of shape {inertia.mass.shape}; it is one")
    changes = {index: Inertia.from_parameters(-inertia.parameters)}
    parent = model.topology.parents[index]
    if parent >= 0:
        joint = model.joint(index)
        changes[parent] = inertia.placed(model.placements[index] @ joint.transform(joint.neutral()))
    return with_inertias_added(model, changes)


def base_parameters(model: Model) -> BaseParameters:
    """The base parameters of a model, by what each joint lets pass between its bodies (book §9.7).

    What the forces do not depend on follows from the joints, where they are, and gravity; not from the inertias. It is decided
    by looking at numbers, so do not call this under `jit`; what it returns may be used there. Armature is no part of it. A
    joint that mimics another adds its row of the equations to the other's, and here rows are taken one by one; such models are
    for `base_parameters_by_rank`.

    >>> model = rbd.load("double_pendulum")
    >>> base = rbd.base_parameters(model)
    >>> print(base.count, base.names)
    6 ('upper hx', 'upper hz', 'upper Iyy', 'lower hx', 'lower hz', 'lower Iyy')
    >>> print(base.of(model))
    [ 0.    -2.     2.001  0.    -1.     1.001]
    """
    a_model("base_parameters", model)
    topology = model.topology
    _refuse_rheonomic("base_parameters", f"a joint of model {model.name!r}", topology.rheonomic)
    if len(topology.mimic_joints):
        name = model.joint_names[topology.mimic_joints[0]]
        raise ModelError(
            f"base_parameters: joint {name!r} of model {model.name!r} mimics another, so the rules of single joints do not hold; "
            "base_parameters_by_rank takes it"
        )
    conditions, sizes, transfers = _looked_at("base_parameters", _conditions(_unlimited(model)))
    rows = []
    for body in range(model.nb):
        for own in _null_space(conditions[body], sizes[body]):
            row = np.zeros((model.nb, 10))
            row[body] = own
            if topology.parents[body] >= 0:
                row[topology.parents[body]] = -transfers[body] @ own
            rows.append(row.reshape(-1))
    return _of_unobservable(model, np.array(rows).reshape(-1, 10 * model.nb))


def base_parameters_by_rank(model: Model, samples: int | None = None) -> BaseParameters:
    """The base parameters of a model, by the rank of the regressor of its inverse dynamics in random states.

    For models with mimic joints, and as a check of `base_parameters`, with which it shares no step. Not to be called under `jit`.

    **Arguments**

    - `samples`: how many states, by default so many that there are three times as many equations as parameters.

    >>> print(rbd.dynamics.base_parameters_by_rank(rbd.load("double_pendulum")).count)
    6
    """
    a_model("base_parameters_by_rank", model)
    _refuse_rheonomic("base_parameters_by_rank", f"a joint of model {model.name!r}", model.topology.rheonomic)
    if not model.nv:
        return _of_unobservable(model, np.eye(10 * model.nb))
    if samples is None:
        samples = 5 + math.ceil(30 * model.nb / model.nv)
    samples = whole_number("base_parameters_by_rank", "samples", samples)
    rows = _regressors(_unlimited(model), samples).reshape(-1, 10 * model.nb)
    return _of_unobservable(model, _null_space(_looked_at("base_parameters_by_rank", rows)))


@eqx.filter_jit
def _regressors(model: Model, samples: int):
    def one(key):
        of_q, of_v, of_a = jax.random.split(key, 3)
        v, a = (jax.random.normal(key, (model.nv,), model.dtype) for key in (of_v, of_a))
        return inverse_dynamics_regressor(model, random_configuration(model, of_q), v, a)

    return jax.vmap(one)(jax.random.split(jax.random.key(0), samples))


@eqx.filter_jit
def _conditions(model: Model):
    """What B of each body has to fulfil in some configurations, equations by parameters, (nb, rows, 10); how large each parameter
    is in their terms, (nb, 10); and A of B, by parameters, in the neutral configuration, (nb, 10, 10).
    """
    topology = model.topology
    tree, parents = topology.tree, np.array(topology.parents, int)  # -1, the world, comes after all bodies
    last = np.append(topology.last_column, -1)[topology.carriers]
    carrying = np.concatenate([tree.supports, np.zeros((1, tree.size), bool)])[last]
    own = topology.moving_bodies[topology.column_owner][None, :] == np.arange(model.nb)[:, None]

    def ways(q):
        """S, W and U of each body by rows, about the body's and the parent's origin, and where that is in the parent."""
        motion = Motion(model, q)
        frames, subspace = motion.frames, motion.common.subspace[None]
        moves = frames[:, None].inverse_motion(jnp.where(carrying[:, :, None], subspace, 0))
        still = jnp.zeros((model.nb, 1, 6), model.dtype)
        S = jnp.concatenate([jnp.where(own[:, :, None], moves, 0), still], axis=1)
        moves = jnp.concatenate([moves, jnp.zeros((1, tree.size, 6), model.dtype)])
        turns = jnp.concatenate([frames.rotation, jnp.eye(3, dtype=model.dtype)[None]])
        origins = jnp.concatenate([frames.position, jnp.zeros((1, 3), model.dtype)])
        pull = vecmat(model.gravity[None], turns)
        pull = jnp.concatenate([jnp.zeros_like(pull), pull], axis=1)[:, None, :]
        # What counts is their span, for which six are enough.
        S, U = (jnp.linalg.qr(x, mode="r") for x in (S, jnp.concatenate([moves, pull], axis=1)[parents]))
        relative = Transform(turns, origins)[parents].inverse() @ frames
        return S, relative[:, None].inverse_motion(U), U, relative

    keys = jax.random.split(jax.random.key(0), CONFIGURATIONS)
    drawn = jax.vmap(lambda key: random_configuration(model, key))(keys)
    S, W, U, relative = jax.vmap(ways)(jnp.concatenate([neutral(model)[None], drawn]))
    unit = Inertia.from_parameters(jnp.eye(10, dtype=model.dtype)[None])
    transfers = transpose(unit.placed(relative[0][:, None]).parameters)
    pair = lambda left, right: jnp.einsum("kbli,kbrip->bklrp", left, right, precision="highest")
    by_W = pair(W, momentum_matrix(W))
    by_U = jnp.einsum("bklrp,bpx->bklrx", pair(U, momentum_matrix(U)), transfers, precision="highest")
    by_S = pair(S, momentum_matrix(jnp.concatenate([S, W], axis=2)))
    rows = [x.reshape(model.nb, -1, 10) for x in (by_S, by_W - by_U)]
    # Of the terms: that they are zero may show in their rounding only.
    parts = jnp.split(jnp.concatenate([S, W], axis=2), 2, axis=-1)
    turn, slide = (jnp.sqrt(jnp.max(jnp.sum(x**2, axis=-1), axis=(0, 2)))[:, None] for x in parts)
    sizes = [slide**2, *3 * [turn * slide], *6 * [turn**2]]
    return jnp.concatenate(rows, axis=1), jnp.concatenate(sizes, axis=1), transfers


def _unlimited(model: Model) -> Model:
    """The model with its configurations anywhere: limits take nothing from what a motion depends on."""
    return replace(model, lower=jnp.full_like(model.lower, -np.inf), upper=jnp.full_like(model.upper, np.inf))


def _refuse_rheonomic(function: str, what: str, rheonomic: bool) -> None:
    if rheonomic:
        raise ModelError(
            f"{function}: {what} moves by itself as time passes, which is no part of these rules; take the joint that it leads "
            "in its place"
        )


def _looked_at(function: str, numbers):
    if not is_known(numbers):
        raise ModelError(
            f"{function} decides by numbers which parameters there are, so call it outside of jit"
        )
    return jax.tree.map(np.asarray, numbers)


def _null_space(rows: np.ndarray, sizes: np.ndarray | None = None) -> np.ndarray:
    """An orthonormal basis, a row each, of what the rows take to zero, to the accuracy of the numbers.

    `sizes`: of the terms of each column, from which may be left less than their rounding; by default of the columns.
    """
    tolerance = accuracy(rows.dtype)
    rows = rows.astype(float)
    count, norms = rows.shape[1], np.sqrt(np.sum(rows**2, axis=0))
    # Masses, moments and lengths are of different sizes.
    seen = norms > tolerance * (norms.max(initial=0) if sizes is None else sizes)
    scale = np.where(seen, norms if sizes is None else sizes, 1)
    triangle = np.linalg.qr(
        np.concatenate([np.where(seen, rows, 0) / scale, np.zeros((count, count))]), mode="r"
    )
    _, values, basis = np.linalg.svd(triangle)
    null = basis[values <= tolerance * max(1, values.max(initial=0))] / scale
    return np.linalg.qr(null.T)[0].T


def _of_unobservable(model: Model, basis: np.ndarray) -> BaseParameters:
    """The base parameters that are left, those of the bodies at the ends eliminated first."""
    blocks = [range(10 * body, 10 * body + 10) for body in reversed(range(model.nb))]
    reduced, pivots = echelon_basis(basis, blocks)
    kept, grouping = left_by(reduced, pivots)
    orthonormal = np.linalg.qr(basis.T)[0].T
    names = tuple(f"{model.body_names[i // 10]} {PARAMETERS[i % 10]}" for i in kept)
    return BaseParameters(
        jnp.asarray(grouping, model.dtype), jnp.asarray(orthonormal, model.dtype), kept, names
    )


def echelon_basis(basis: np.ndarray, blocks) -> tuple[np.ndarray, list[int]]:
    """The basis with a unit matrix in some of its columns, and which: as many in the first blocks as can be.

    The choice depends on the space and not on its basis: by what is left of each column when those chosen are projected out.
    """
    left = np.linalg.qr(basis.T)[0].T if len(basis) else basis
    pivots: list[int] = []
    for block in blocks:
        while True:
            sizes = np.sqrt(np.sum(left[:, block] ** 2, axis=0))
            largest = sizes.max(initial=0)
            if len(pivots) == len(basis) or largest < 1e-6:
                break
            column = block[int(np.flatnonzero(sizes >= PREFERENCE * largest)[0])]
            unit = left[:, column] / np.linalg.norm(left[:, column])
            left = left - np.outer(unit, unit @ left)
            pivots.append(column)
    reduced = np.linalg.solve(basis[:, pivots], basis) if pivots else basis
    return np.where(np.abs(reduced) < 1e-13, 0, reduced), pivots


def left_by(reduced: np.ndarray, pivots: list[int]) -> tuple[tuple[int, ...], np.ndarray]:
    """What an echelon basis of unseen changes leaves: the columns that are no pivots, and K, whose `K x` no change alters."""
    size = reduced.shape[1]
    kept = tuple(i for i in range(size) if i not in set(pivots))
    grouping = np.zeros((len(kept), size))
    grouping[np.arange(len(kept)), list(kept)] = 1
    grouping[:, pivots] = -reduced[:, list(kept)].T
    return kept, grouping
