"""Slow, independent implementations in NumPy, one body at a time, as printed in the book's tables.

They use body coordinates (tables 5.1, 6.2, 7.1), vectors of three (table 5.2), or six coordinates per body with
constraint forces (eq. 3.74). Joint quantities come from the library, through `joint_tables`.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np


def joint_tables(model, q, v):
    """Returns rotation, position, S, velocity `S q̇ + σ` and velocity product of each joint, in order."""
    rows = []
    for body in range(model.nb):
        joint, q_own, v_own = model.joint(body), q[model.q_slice(body)], v[model.v_slice(body)]
        placed = model.placements[body] @ joint.transform(q_own)
        subspace = joint.motion_subspace(q_own)
        rows.append(
            {
                "rotation": placed.rotation,
                "position": placed.position,
                "subspace": subspace,
                "velocity": jnp.matmul(subspace, v_own) + joint.drift(q_own),
                "product": joint.velocity_product(q_own, v_own),
            }
        )
    return rows


def skew(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def plucker(rotation, position):
    """Returns the transform of motion vectors from the parent's coordinates to the body's: eq. 2.24 with `E = Rᵀ`."""
    e = rotation.T
    return np.block([[e, np.zeros((3, 3))], [-e @ skew(position), e]])


def crm(v):
    """Returns `v×` (eq. 2.31)."""
    return np.block([[skew(v[:3]), np.zeros((3, 3))], [skew(v[3:]), skew(v[:3])]])


def crf(v):
    """Returns `v×*` (eq. 2.32)."""
    return -crm(v).T


def spatial_inertia(mass, com, central):
    """Eq. 2.63."""
    c = skew(com)
    return np.block([[central + mass * c @ c.T, mass * c], [mass * c.T, mass * np.eye(3)]])


@dataclass
class Mechanism:
    """A model in a state, as plain lists over bodies, with all inputs of the tables."""

    parents: tuple
    slices: list
    rotation: list
    position: list
    subspace: list
    velocity: list
    product: list
    inertia: list
    gravity: np.ndarray
    armature: np.ndarray

    @staticmethod
    def of(model, rows):
        central, com, mass = (
            np.asarray(x) for x in (model.inertias.rotational_com, model.inertias.com, model.inertias.mass)
        )
        column = lambda key: [np.asarray(row[key]) for row in rows]
        return Mechanism(
            model.topology.parents,
            [model.v_slice(body) for body in range(model.nb)],
            *(column(key) for key in ("rotation", "position", "subspace", "velocity", "product")),
            [spatial_inertia(*body) for body in zip(mass, com, central)],
            np.asarray(model.gravity),
            np.asarray(model.armature),
        )

    def __post_init__(self):
        self.nb, self.nv = len(self.parents), len(self.armature)
        self.x = [plucker(r, p) for r, p in zip(self.rotation, self.position)]
        self.base = np.concatenate([np.zeros(3), -self.gravity])

    def frames(self):
        """Returns the 4x4 matrix of each body in the world, the product along its path."""
        frames = []
        for parent, rotation, position in zip(self.parents, self.rotation, self.position):
            own = np.eye(4)
            own[:3, :3], own[:3, 3] = rotation, position
            frames.append(frames[parent] @ own if parent >= 0 else own)
        return np.array(frames)

    def to_world(self):
        """Returns the transform of motion vectors from the world's coordinates to each body's."""
        return [plucker(frame[:3, :3], frame[:3, 3]) for frame in self.frames()]

    def velocities(self):
        v = []
        for i, parent in enumerate(self.parents):
            v.append((self.x[i] @ v[parent] if parent >= 0 else 0) + self.velocity[i])
        return v

    def accelerations(self, a, base):
        v, acc = self.velocities(), []
        for i, parent in enumerate(self.parents):
            own = self.subspace[i] @ a[self.slices[i]] + self.product[i] + crm(v[i]) @ self.velocity[i]
            acc.append(self.x[i] @ (acc[parent] if parent >= 0 else base) + own)
        return acc

    def external(self, f_ext):
        """Returns external forces, given in the world, in body coordinates: `X* f = X⁻ᵀ f`."""
        return [np.linalg.solve(x.T, f) for x, f in zip(self.to_world(), f_ext)]

    def rnea(self, a, f_ext):
        """Inverse dynamics by table 5.1."""
        v, acc, external = self.velocities(), self.accelerations(a, self.base), self.external(f_ext)
        f = [I @ b + crf(u) @ I @ u - x for I, b, u, x in zip(self.inertia, acc, v, external)]
        tau = self.armature * a
        for i in reversed(range(self.nb)):
            tau[self.slices[i]] += self.subspace[i].T @ f[i]
            if self.parents[i] >= 0:
                f[self.parents[i]] = f[self.parents[i]] + self.x[i].T @ f[i]
        return tau

    def crba(self):
        """The joint-space inertia by table 6.2."""
        composite, h = [I.copy() for I in self.inertia], np.diag(self.armature)
        for i in reversed(range(self.nb)):
            if self.parents[i] >= 0:
                composite[self.parents[i]] += self.x[i].T @ composite[i] @ self.x[i]
            force, j = composite[i] @ self.subspace[i], i
            h[self.slices[i], self.slices[i]] += self.subspace[i].T @ force
            while self.parents[j] >= 0:
                force, j = self.x[j].T @ force, self.parents[j]
                h[self.slices[i], self.slices[j]] = force.T @ self.subspace[j]
                h[self.slices[j], self.slices[i]] = h[self.slices[i], self.slices[j]].T
        return h

    def aba(self, tau, f_ext):
        """Forward dynamics by table 7.1, with all degrees of freedom of a joint at once."""
        v, external = self.velocities(), self.external(f_ext)
        c = [self.product[i] + crm(v[i]) @ self.velocity[i] for i in range(self.nb)]
        inertia = [I.copy() for I in self.inertia]
        bias = [crf(u) @ I @ u - x for I, u, x in zip(self.inertia, v, external)]
        u, d, effort = [None] * self.nb, [None] * self.nb, [None] * self.nb
        for i in reversed(range(self.nb)):
            s, own = self.subspace[i], self.slices[i]
            u[i] = inertia[i] @ s
            d[i] = s.T @ u[i] + np.diag(self.armature[own])
            effort[i] = tau[own] - s.T @ bias[i]
            if self.parents[i] >= 0:
                apparent = inertia[i] - u[i] @ np.linalg.solve(d[i], u[i].T)
                force = bias[i] + apparent @ c[i] + u[i] @ np.linalg.solve(d[i], effort[i])
                inertia[self.parents[i]] += self.x[i].T @ apparent @ self.x[i]
                bias[self.parents[i]] = bias[self.parents[i]] + self.x[i].T @ force
        qdd, acc = np.zeros(self.nv), []
        for i, parent in enumerate(self.parents):
            free = self.x[i] @ (acc[parent] if parent >= 0 else self.base) + c[i]
            own = np.linalg.solve(d[i], effort[i] - u[i].T @ free)
            qdd[self.slices[i]] = own
            acc.append(free + self.subspace[i] @ own)
        return qdd

    def floating_aba(self, tau, f_ext):
        """Forward dynamics of a floating base, which is body 0, by table 9.4: base and joint accelerations."""
        v, external = self.velocities(), self.external(f_ext)
        inertia = [I.copy() for I in self.inertia]
        bias = [crf(u) @ I @ u - x for I, u, x in zip(self.inertia, v, external)]
        c = [self.product[i] + crm(v[i]) @ self.velocity[i] for i in range(self.nb)]
        left = {}
        for i in reversed(range(1, self.nb)):
            s, own = self.subspace[i], self.slices[i]
            u = inertia[i] @ s
            d = s.T @ u + np.diag(self.armature[own])
            effort = tau[own] - s.T @ bias[i]
            left[i] = u, d, effort
            apparent = inertia[i] - u @ np.linalg.solve(d, u.T)
            force = bias[i] + apparent @ c[i] + u @ np.linalg.solve(d, effort)
            inertia[self.parents[i]] += self.x[i].T @ apparent @ self.x[i]
            bias[self.parents[i]] = bias[self.parents[i]] + self.x[i].T @ force
        acc, qdd = [-np.linalg.solve(inertia[0], bias[0])], np.zeros(self.nv)
        for i in range(1, self.nb):
            u, d, effort = left[i]
            free = self.x[i] @ acc[self.parents[i]] + c[i]
            qdd[self.slices[i]] = np.linalg.solve(d, effort - u.T @ free)
            acc.append(free + self.subspace[i] @ qdd[self.slices[i]])
        return acc[0] - self.x[0] @ self.base, qdd[6:]

    def floating_rnea(self, a, f_ext):
        """Inverse dynamics of a floating base, which is body 0, by table 9.6: its acceleration and the joint forces.

        Uses `v_i × v_J` where the table prints `v_J × v_J`.
        """
        v, external = self.velocities(), self.external(f_ext)
        relative = [self.x[0] @ self.base]
        for i in range(1, self.nb):
            own = self.subspace[i] @ a[self.slices[i]] + self.product[i] + crm(v[i]) @ self.velocity[i]
            relative.append(self.x[i] @ relative[self.parents[i]] + own)
        inertia = [I.copy() for I in self.inertia]
        bias = [I @ b + crf(u) @ I @ u - x for I, b, u, x in zip(self.inertia, relative, v, external)]
        for i in reversed(range(1, self.nb)):
            inertia[self.parents[i]] += self.x[i].T @ inertia[i] @ self.x[i]
            bias[self.parents[i]] = bias[self.parents[i]] + self.x[i].T @ bias[i]
        base = [-np.linalg.solve(inertia[0], bias[0])]
        tau = self.armature * a
        for i in range(1, self.nb):
            base.append(self.x[i] @ base[self.parents[i]])
            tau[self.slices[i]] += self.subspace[i].T @ (inertia[i] @ base[i] + bias[i])
        return base[0], tau[6:]

    def newton_euler(self, tau):
        """Forward dynamics in six coordinates per body, with the constraint forces as unknowns: eq. 3.74.

        All quantities are in the world's frame. Returns `q̈`, computed from the accelerations of the bodies.
        """
        n, to_world = self.nb, self.to_world()
        v = [np.linalg.solve(x, u) for x, u in zip(to_world, self.velocities())]
        inertia, incidence = np.zeros((6 * n, 6 * n)), np.kron(np.eye(n), np.eye(6))
        force, known, rows = np.zeros(6 * n), [], []
        active = np.zeros((6 * n, self.nv))
        for i, (x, parent) in enumerate(zip(to_world, self.parents)):
            own, spatial = slice(6 * i, 6 * i + 6), x.T @ self.inertia[i] @ x
            inertia[own, own] = spatial
            gravity = spatial @ np.concatenate([np.zeros(3), self.gravity])
            force[own] = gravity - crf(v[i]) @ spatial @ v[i]
            if parent >= 0:
                incidence[6 * parent : 6 * parent + 6, own] = -np.eye(6)
            s = np.linalg.solve(x, self.subspace[i])
            nf = s.shape[1]
            basis = np.linalg.svd(s)[0][:, nf:] if nf else np.eye(6)  # TᵀS = 0
            relative, product = np.linalg.solve(x, self.velocity[i]), np.linalg.solve(x, self.product[i])
            known.append(product + crm(v[i]) @ relative)
            rows.append(basis)
            active[own, self.slices[i]] = s @ np.linalg.inv(s.T @ s) if nf else s  # T_aᵀS = 1
        constraint = np.zeros((6 * n, sum(basis.shape[1] for basis in rows)))
        start = 0
        for i, basis in enumerate(rows):
            constraint[6 * i : 6 * i + 6, start : start + basis.shape[1]] = basis
            start += basis.shape[1]
        lever = incidence @ constraint
        known = np.concatenate(known)
        system = np.block([[inertia, lever], [lever.T, np.zeros((lever.shape[1],) * 2)]])
        right = np.concatenate([incidence @ active @ tau + force, constraint.T @ known])
        acceleration = np.linalg.solve(system, right)[: 6 * n]
        return active.T @ (incidence.T @ acceleration - known)


def rnea_3d(parents, rotation, position, axis, mass, com, central, gravity, qd, qdd):
    """Inverse dynamics of revolute joints with vectors of three, by Luh, Walker & Paul: table 5.2.

    All vectors are in body coordinates, accelerations are the classical ones of the bodies' origins, and linear
    velocities are not needed.
    """
    w, dw, acc, f, n = [], [], [], [], []
    for i, parent in enumerate(parents):
        e = rotation[i].T
        w0, dw0, a0 = (
            (w[parent], dw[parent], acc[parent]) if parent >= 0 else (np.zeros(3), np.zeros(3), -gravity)
        )
        spin = axis[i] * qd[i]
        w.append(e @ w0 + spin)
        dw.append(e @ dw0 + axis[i] * qdd[i] + np.cross(e @ w0, spin))
        acc.append(e @ (a0 + np.cross(dw0, position[i]) + np.cross(w0, np.cross(w0, position[i]))))
        center = acc[i] + np.cross(dw[i], com[i]) + np.cross(w[i], np.cross(w[i], com[i]))
        f.append(mass[i] * center)
        turn = central[i] @ dw[i] + np.cross(w[i], central[i] @ w[i])
        n.append(turn + np.cross(com[i], f[i]))
    tau = np.zeros(len(parents))
    for i in reversed(range(len(parents))):
        tau[i] = axis[i] @ n[i]
        parent = parents[i]
        if parent >= 0:
            f[parent] = f[parent] + rotation[i] @ f[i]
            n[parent] = n[parent] + rotation[i] @ n[i] + np.cross(position[i], rotation[i] @ f[i])
    return tau
