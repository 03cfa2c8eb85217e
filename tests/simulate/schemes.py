"""Every scheme with fixed steps, with its order."""

import rbd_jax as rbd


EXPLICIT = {
    "LieEuler": 1,
    "SemiImplicitEuler": 1,
    "MujocoEuler": 1,
    "RKMK2": 2,
    "RKMK3": 3,
    "RungeKutta4": 4,
    "CrouchGrossman3": 3,
    "CommutatorFree2": 2,
    "CommutatorFree3": 3,
    "CommutatorFree4": 4,
    "EventDriven": 4,
}
IMPLICIT = {
    "LinearlyImplicitEuler": 1,
    "BDF1": 1,
    "BDF2": 2,
    "ImplicitMidpoint": 2,
    "GeneralizedAlpha": 2,
}
VARIATIONAL = {"Rattle": 2, "VariationalMidpoint": 2, "EnergyMomentum": 2}

ORDERS = EXPLICIT | IMPLICIT | VARIATIONAL


def scheme(name: str, **options):
    return getattr(rbd, name)(**options)


def result():
    return rbd.simulate.Result
