"""Collision detection, contact models, impacts and contact problems.

Attachments of a model:

- `Soft`: MuJoCo's contact model: all contacts, joint limits and dry friction as one convex problem
- `Rigid`: rigid contact with friction, one convex problem per step
- `Hard`: rigid contact with forces and impacts, from event to event
- `Softness`: stiffness and damping of the limits and the dry friction of a joint or a tendon under `Soft`
- `SoftEquality`: a constraint held by a spring and a damper, as MuJoCo holds equality constraints
- `SoftTendonEquality`: the same between the lengths of tendons
- `QuaternionWeld`: MuJoCo's residual of a weld
- `MasslessCenters`: points that replace the centers of mass of bodies without mass under `Soft`
- `ContactPair`: an explicit pair of shapes with its own contact parameters
- `ContactExclusion`: two bodies whose shapes do not touch each other
- `Compliant`: a contact force between two shapes from their overlap and its rate, with regularized or bristle friction
- `ContactLaw`: base class of contact models
- `JumpingLaw`: base class of contact models with velocity jumps
- `Reaction`: the result of a contact model

Contact points of the shapes of a model, from `rbd.contacts`:

- `Contacts`: points, frames, parameters, and forces if they were computed
- `separated`: the nearest configuration in which no shapes overlap

Impacts:

- `impact`: the velocities after an impact
- `Impact`: these velocities and the impulses
- `impulse_response`: the velocity change that impulses cause

Rigid contact between impacts, as in the book:

- `unilateral_dynamics`: the acceleration, with or without friction
- `Unilateral`: the acceleration, the forces, and the state of each contact
- `contact_problem`: the relation between contact forces and the separation accelerations of contacts
- `ContactProblem`: this relation as a matrix and a vector
- `ContactState`: the possible states of a contact

Problems of matrices and vectors:

- `solvers`: complementarity problems, quadratic programs, friction cones, soft constraints

Pairs of geometries:

- `contact_points`: distances, positions and frames
- `ContactPoints`: the result of `contact_points`
- `signed_distance`: the signed distance and the nearest points
- `SignedDistance`: the result of `signed_distance`
- `bounding_sphere`: a sphere around a geometry
- `core`: the convex body that represents a geometry in contact; register your own geometries here
- `Core`: a convex body as the sum of a polytope, a flattened ball and a ball
- `from_support`: a core from a support function
"""

__all__ = [
    "Soft",
    "Rigid",
    "Hard",
    "Softness",
    "SoftEquality",
    "SoftTendonEquality",
    "QuaternionWeld",
    "MasslessCenters",
    "ContactPair",
    "ContactExclusion",
    "Compliant",
    "ContactLaw",
    "JumpingLaw",
    "Reaction",
    "Contacts",
    "separated",
    "impact",
    "Impact",
    "impulse_response",
    "unilateral_dynamics",
    "Unilateral",
    "contact_problem",
    "ContactProblem",
    "ContactState",
    "solvers",
    "contact_points",
    "ContactPoints",
    "signed_distance",
    "SignedDistance",
    "bounding_sphere",
    "core",
    "Core",
    "from_support",
]

from . import solvers as solvers
from .compliant import Compliant as Compliant
from .contacts import Contacts as Contacts
from .equality import (
    QuaternionWeld as QuaternionWeld,
    SoftEquality as SoftEquality,
    SoftTendonEquality as SoftTendonEquality,
)
from .geometry.bounds import bounding_sphere as bounding_sphere
from .geometry.cores import Core as Core, core as core, from_support as from_support
from .geometry.pairs import (
    ContactPoints as ContactPoints,
    SignedDistance as SignedDistance,
    contact_points as contact_points,
    signed_distance as signed_distance,
)
from .hard import Hard as Hard
from .impact import Impact as Impact, impact as impact, impulse_response as impulse_response
from .law import ContactLaw as ContactLaw, JumpingLaw as JumpingLaw, Reaction as Reaction
from .massless import MasslessCenters as MasslessCenters
from .pairs import ContactExclusion as ContactExclusion, ContactPair as ContactPair
from .rigid import Rigid as Rigid
from .separated import separated as separated
from .soft import Soft as Soft
from .softness import Softness as Softness
from .unilateral import (
    ContactProblem as ContactProblem,
    ContactState as ContactState,
    Unilateral as Unilateral,
    contact_problem as contact_problem,
    unilateral_dynamics as unilateral_dynamics,
)
