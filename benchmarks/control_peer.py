"""Solves optimal control problems with crocoddyl; `control.py` starts this program as a separate process.

Each input line is a problem in JSON, and each output line is its result in JSON. The first output line has the
version of crocoddyl, or reports that crocoddyl is missing.
"""

from __future__ import annotations

import json
import os
import sys
import time


os.environ["OMP_NUM_THREADS"] = "1"


def posed(given: dict):
    """Returns the shooting problem: semi-implicit Euler steps of free forward dynamics, and sums of weighted squares."""
    model = pinocchio.buildModelFromXML(given["urdf"])
    model.armature = np.array(given["armature"])
    model.gravity.linear = np.array(given["gravity"])
    state = crocoddyl.StateMultibody(model)
    actuation, nv = crocoddyl.ActuationModelFull(state), model.nv

    def residual(kind: str, target):
        if kind == "effort":
            return crocoddyl.ResidualModelControl(state, np.zeros(nv)), None
        if kind == "pose":
            place = pinocchio.SE3(np.array(target["rotation"]), np.array(target["position"]))
            return crocoddyl.ResidualModelFramePlacement(
                state, model.getFrameId(target["body"], pinocchio.FrameType.BODY), place, nv
            ), None
        x, which = np.zeros(2 * nv), np.zeros(2 * nv)
        which[nv:] = kind == "velocity"
        which[:nv] = kind == "posture"
        x[:nv] = target or 0
        return crocoddyl.ResidualModelState(state, x, nv), crocoddyl.ActivationModelWeightedQuad(which)

    def action(costs, dt: float):
        found = crocoddyl.CostModelSum(state, nv)
        for i, (kind, target, weight) in enumerate(costs):
            rows, activation = residual(kind, target)
            cost = (
                crocoddyl.CostModelResidual(state, rows)
                if activation is None
                else crocoddyl.CostModelResidual(state, activation, rows)
            )
            found.addCost(f"{kind} {i}", cost, weight)
        dynamics = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, found)
        whole = crocoddyl.IntegratedActionModelEuler(dynamics, dt)
        whole.u_lb, whole.u_ub = np.array(given["lower"]), np.array(given["upper"])
        return whole

    running, end = action(given["running"], given["dt"]), action(given["terminal"], 0.0)
    problem = crocoddyl.ShootingProblem(np.array(given["start"]), [running] * given["steps"], end)
    problem.nthreads = 1
    return problem


def solved(given: dict) -> dict:
    """Solves a problem and returns its result."""
    problem = posed(given)
    u = [np.array(row) for row in given["guess"]]
    x = list(problem.rollout(u))
    solver = crocoddyl.SolverBoxDDP(problem) if given["bounded"] else crocoddyl.SolverDDP(problem)
    solver.th_stop = given["tolerance"]
    begin = time.perf_counter()
    done = solver.solve(x, u, given["iterations"], True)
    took = time.perf_counter() - begin
    return {
        "seconds": took,
        "iterations": solver.iter + 1,
        "cost": solver.cost,
        "converged": bool(done),
        "end": np.array(solver.xs[-1]).tolist(),
    }


if __name__ == "__main__":
    try:
        import crocoddyl
        import numpy as np
        import pinocchio
    except ImportError as missing:
        print(json.dumps({"missing": str(missing)}), flush=True)
        sys.exit()
    print(json.dumps({"version": crocoddyl.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(solved(json.loads(line))), flush=True)
