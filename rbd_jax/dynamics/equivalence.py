"""Inertias without effect on any motion (book §9.7): transfers between two bodies, and the remaining base parameters.

An inertia I_Δ transferred from a body to its parent has no effect if it does not resist motion along the joint between them:
`I_Δ S = 0` and `I_Δ = X_Jᵀ I_Δ X_J` in every position (9.30; the third condition there follows from the second). Table 9.7
lists the solutions for three joints. They hold for a parent that moves freely. Near a fixed base the parent does not, and more
parameters become unobservable. Let the columns of U span the motions of the parent and gravity, and let `W = X_J U`.
Subtracting B from a body and adding A to its parent has no effect if, in every configuration,

    Sᵀ B S = 0,    Sᵀ B W = 0,    Wᵀ B W = Uᵀ A U.

The first two conditions are the joint's own rows of the mass matrix and of the gravity forces, the third is the rest. A can be
chosen as B at any single position of the joint. Applied from the leaves to the root, these pairs span all unobservable changes:
only B appears in the rows of a leaf's joint. The effect of B on the other rows depends on the position of this joint, unless
the third condition holds for some A. With the pair removed, the parent is a leaf. So the rules of single joints are complete.
`base_parameters_by_rank` computes the same result independently from the regressor.
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


#: The names of the ten inertia parameters of a body, in order.
PARAMETERS = ("m", "hx", "hy", "hz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
#: Number of configurations in which the conditions of a joint are evaluated; each adds at least one equation for ten unknowns.
CONFIGURATIONS = 24
#: The first parameter in order is eliminated whose remaining norm is at least this fraction of the largest.
PREFERENCE = 0.3


class BaseParameters(eqx.Module):
    """The inertia parameters that the motion of a model depends on, as linear combinations of all its parameters.

    The 10 nb parameters θ are those of `inverse_dynamics_regressor`; n of them are selected, and the others grouped with these.

    - `grouping`: K with `Y θ = Y[:, kept] K θ` for every motion.
    - `unobservable`: an orthonormal basis of all θ with `Y θ = 0`, one row per vector.
    - `kept`: the indices of the n selected columns of Y, one per base parameter.
    - `names`: the body and the selected parameter of each base parameter; `h = m c` is the first moment.

    Joint placements and gravity are constants here, inertias are not. `of` and `simplified` take models with any inertias, and
    are differentiable with respect to them. A model with another geometry has other base parameters.

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
        """The number of base parameters."""
        return len(self.kept)

    def of(self, model: Model) -> Float[Array, "n"]:
        """Returns the base parameters of a model of the same geometry."""
        return matvec(self.grouping, self._parameters(model))

    def columns(self, regressor: Float[Array | np.ndarray, "*rows parameters"]) -> Float[Array, "*rows n"]:
        """Returns the columns of an inverse dynamics regressor that belong to the base parameters; they are independent."""
        return jnp.asarray(regressor)[..., np.array(self.kept, int)]

    def simplified(self, model: Model) -> Model:
        """Returns the model with the minimal number of nonzero parameters: base parameters and zeros (book §9.7).

        It moves as before under the same forces. The constraint forces of its joints and the momentum of bodies fixed to the
        world differ. Masses may be zero or negative.
        """
        spread = np.zeros((self.grouping.shape[1], self.count))
        spread[list(self.kept), np.arange(self.count)] = 1
        parameters = matvec(jnp.asarray(spread, model.dtype), self.of(model))
        return replace(model, inertias=Inertia.from_parameters(parameters.reshape(-1, 10)))

    def _parameters(self, model: Model) -> Float[Array, "parameters"]:
        a_model("BaseParameters", model)
        if 10 * model.nb != self.grouping.shape[1]:
            raise ModelError(
                f"BaseParameters: model {model.name!r} has {model.nb} bodies, but these base parameters belong to a model with "
                f"{self.grouping.shape[1] // 10}"
            )
        return model.inertias.parameters.reshape(-1)


def transferable_inertias(joint: Joint) -> Inertia:
    """Returns a basis of the inertias that can be transferred across a joint, for any bodies (book table 9.7).

    The result is a batch of inertias I_Δ in the joint's successor frame. Every linear combination can be subtracted from one of
    the two bodies and added to the other, at any joint position; see `transfer_inertia`. For a revolute joint these are
    masses on its axis (three parameters: mass, first moment, moment of inertia). For a prismatic joint they are all six
    rotational inertias, for a spherical joint a mass at its center. A free joint has none, a weld all ten. Joints whose S
    depends on q are supported. Do not call this function under `jit`.

    >>> for inertia in rbd.dynamics.transferable_inertias(rbd.joints.Revolute()).parameters:
    ...     print(inertia)
    [1. 0. 0. 0. 0. 0. 0. 0. 0. 0.]
    [0. 0. 0. 1. 0. 0. 0. 0. 0. 0.]
    [0. 0. 0. 0. 1. 0. 1. 0. 0. 0.]
    """
    instance("transferable_inertias", "joint", joint, Joint, "a joint of rbd.joints")
    _refuse_rheonomic("transferable_inertias", "the joint", joint.rheonomic)

    def conditions(key):
        basis = momentum_matrix(jnp.eye(6))  # column j of an inertia's matrix, by its parameters
        matrices = jnp.moveaxis(basis, 0, -1)  # (6, 10, 6)
        s = joint.motion_subspace(joint.random(key))
        felt = jnp.einsum("ipj,js->isp", matrices, s, precision="highest")
        # The rate of Xᵀ I X while the joint moves, in the successor frame.
        along, against = jax.vmap(cross_force_matrix)(s.T), jax.vmap(cross_motion_matrix)(s.T)
        turned = jnp.einsum("sij,jpk->sikp", along, matrices, precision="highest")
        turned = turned - jnp.einsum("ipj,sjk->sikp", matrices, against, precision="highest")
        return jnp.concatenate([felt.reshape(-1, 10), turned.reshape(-1, 10)])

    draw = lambda: jax.vmap(conditions)(jax.random.split(jax.random.key(0), CONFIGURATIONS)).reshape(-1, 10)
    null = _null_space(_looked_at("transferable_inertias", jax.jit(draw)()))
    return Inertia.from_parameters(floating(echelon_basis(null, [range(10)])[0]))


def transfer_inertia(model: Model, body: str | int, inertia: Inertia) -> Model:
    """Returns the model with an inertia transferred from a body to its parent, at the zero position of the joint.

    The motion is unchanged if the inertia is a combination of `transferable_inertias(joint)`; any other inertia may change
    it. If the parent is the world, the inertia is discarded.

    Args:
      model: The model.
      body: Name or index of the body.
      inertia: The inertia to transfer, in the frame of the body.

    This example transfers a mass on the axis of the elbow from the lower arm:

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
        raise ModelError(
            f"transfer_inertia: inertia must be a single inertia, got a batch of shape {inertia.mass.shape}"
        )
    changes = {index: Inertia.from_parameters(-inertia.parameters)}
    parent = model.topology.parents[index]
    if parent >= 0:
        joint = model.joint(index)
        changes[parent] = inertia.placed(model.placements[index] @ joint.transform(joint.neutral()))
    return with_inertias_added(model, changes)


def base_parameters(model: Model) -> BaseParameters:
    """Returns the base parameters of a model, from the transferable inertias of each joint (book §9.7).

    They depend on the joints, their placements and gravity, but not on the inertias. The decision needs concrete values,
    so do not call this function under `jit`; its result can be used there. Armature is not included. A mimic joint adds
    its row of the equations to another joint's row, but this function treats rows separately. Use
    `base_parameters_by_rank` for such models.

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
            "use base_parameters_by_rank"
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
    """Returns the base parameters of a model, from the rank of its inverse dynamics regressor in random states.

    It supports models with mimic joints, and serves as an independent check of `base_parameters`. Do not call it under `jit`.

    Args:
      model: The model.
      samples: Number of states. Default: enough for three times as many equations as parameters.

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
    """Returns the conditions on B of each body in some configurations, (nb, rows, 10), with sizes and transfers.

    The sizes bound each parameter's terms in these equations, (nb, 10). The transfers map the parameters of B to those of A
    in the neutral configuration, (nb, 10, 10).
    """
    topology = model.topology
    tree, parents = topology.tree, np.array(topology.parents, int)  # -1, the world, is after all bodies
    last = np.append(topology.last_column, -1)[topology.carriers]
    carrying = np.concatenate([tree.supports, np.zeros((1, tree.size), bool)])[last]
    own = topology.moving_bodies[topology.column_owner][None, :] == np.arange(model.nb)[:, None]

    def ways(q):
        """Returns S, W and U of each body as rows, about the body's and the parent's origin, and its pose in the parent."""
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
        # Only the span matters, and six vectors suffice for it.
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
    # Sizes of the terms: sums that should be zero may differ from zero by their rounding error only.
    parts = jnp.split(jnp.concatenate([S, W], axis=2), 2, axis=-1)
    turn, slide = (jnp.sqrt(jnp.max(jnp.sum(x**2, axis=-1), axis=(0, 2)))[:, None] for x in parts)
    sizes = [slide**2, *3 * [turn * slide], *6 * [turn**2]]
    return jnp.concatenate(rows, axis=1), jnp.concatenate(sizes, axis=1), transfers


def _unlimited(model: Model) -> Model:
    """Returns the model without position limits, since limits do not change the base parameters."""
    return replace(model, lower=jnp.full_like(model.lower, -np.inf), upper=jnp.full_like(model.upper, np.inf))


def _refuse_rheonomic(function: str, what: str, rheonomic: bool) -> None:
    if rheonomic:
        raise ModelError(
            f"{function}: {what} has a prescribed motion in time, which these rules do not cover. Use the joint that it wraps "
            "instead"
        )


def _looked_at(function: str, numbers):
    if not is_known(numbers):
        raise ModelError(
            f"{function}: the number of parameters depends on concrete values, so call it outside of jit"
        )
    return jax.tree.map(np.asarray, numbers)


def _null_space(rows: np.ndarray, sizes: np.ndarray | None = None) -> np.ndarray:
    """Returns an orthonormal basis of the null space of the rows, one vector per row, to the accuracy of their dtype.

    `sizes` bounds the terms of each column, whose rounding error counts as zero. By default it follows from the columns.
    """
    tolerance = accuracy(rows.dtype)
    rows = rows.astype(float)
    count, norms = rows.shape[1], np.sqrt(np.sum(rows**2, axis=0))
    # Scale the columns, because masses, moments and lengths differ in magnitude.
    seen = norms > tolerance * (norms.max(initial=0) if sizes is None else sizes)
    scale = np.where(seen, norms if sizes is None else sizes, 1)
    triangle = np.linalg.qr(
        np.concatenate([np.where(seen, rows, 0) / scale, np.zeros((count, count))]), mode="r"
    )
    _, values, basis = np.linalg.svd(triangle)
    null = basis[values <= tolerance * max(1, values.max(initial=0))] / scale
    return np.linalg.qr(null.T)[0].T


def _of_unobservable(model: Model, basis: np.ndarray) -> BaseParameters:
    """Returns the remaining base parameters; the parameters of the bodies furthest from the root are eliminated first."""
    blocks = [range(10 * body, 10 * body + 10) for body in reversed(range(model.nb))]
    reduced, pivots = echelon_basis(basis, blocks)
    kept, grouping = left_by(reduced, pivots)
    orthonormal = np.linalg.qr(basis.T)[0].T
    names = tuple(f"{model.body_names[i // 10]} {PARAMETERS[i % 10]}" for i in kept)
    return BaseParameters(
        jnp.asarray(grouping, model.dtype), jnp.asarray(orthonormal, model.dtype), kept, names
    )


def echelon_basis(basis: np.ndarray, blocks) -> tuple[np.ndarray, list[int]]:
    """Returns the basis with a unit matrix in its pivot columns, and these columns, from the first blocks if possible.

    The choice depends on the space and not on its basis: it uses the norm of each column after
    projecting out the chosen columns.
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
    """Returns the columns without a pivot and K, whose `K x` is invariant under the unobservable changes of the basis."""
    size = reduced.shape[1]
    kept = tuple(i for i in range(size) if i not in set(pivots))
    grouping = np.zeros((len(kept), size))
    grouping[np.arange(len(kept)), list(kept)] = 1
    grouping[:, pivots] = -reduced[:, list(kept)].T
    return kept, grouping
