"""Every scheme of fixed steps, with its order."""

from rbd_jax import simulate as _room


EXPLICIT = {
    "LieEuler": 1,
    "SemiImplicitEuler": 1,
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
    return getattr(_room, name)(**options)


def result():
    return _room.Result
