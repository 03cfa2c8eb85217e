"""Where bodies touch, and how they push each other there.

What is attached to a model:

- `Soft`: MuJoCo's law of contact: all contacts, stops and dry friction as one convex problem
- `Rigid`: rigid contact with friction, one convex problem a step
- `Hard`: rigid contact by forces and impacts, from event to event
- `Softness`: how soft the stops and the dry friction of a joint or a tendon are under it
- `SoftEquality`: a constraint held by a spring and a damper, as MuJoCo holds equality constraints
- `SoftTendonEquality`: the same between the lengths of tendons
- `QuaternionWeld`: MuJoCo's residual of a weld
- `MasslessCenters`: what stands for the centers of mass of bodies without mass under it
- `ContactPair`: two shapes that touch whatever their bits say, by numbers of their own
- `ContactExclusion`: two bodies that do not touch
- `Compliant`: a force between two shapes, by how deep and how fast they overlap, with friction, also by bristles
- `ContactLaw`: what a law of your own implements
- `JumpingLaw`: the same, under which velocities jump
- `Reaction`: what it returns

Where the shapes of a model touch, `rbd.contacts`:

- `Contacts`: points, frames, numbers, and forces where those were asked for
- `separated`: a configuration near a given one in which nothing overlaps

When bodies hit each other:

- `impact`: the velocities after it
- `Impact`: those, and the impulses
- `impulse_response`: what impulses do

Where they touch rigidly and move on, as the book has it:

- `unilateral_dynamics`: the acceleration, with or without friction
- `Unilateral`: that, the forces, and what each contact is doing
- `contact_problem`: how contacts accelerate apart by forces
- `ContactProblem`: that, as a matrix and a vector
- `ContactState`: what a contact can be doing

Problems of matrices and vectors:

- `solvers`: complementarity, quadratic programs, cones of friction, soft constraints

Of two geometries:

- `contact_points`: distances, positions, frames
- `ContactPoints`: these
- `signed_distance`: with the nearest points
- `SignedDistance`: that
- `bounding_sphere`: around a geometry
- `core`: the convex body with which a geometry touches; register geometries of your own here
- `Core`: that, as a sum of a polytope, a flattened ball and a ball
- `from_support`: a core, by the point farthest in a direction
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
