"""The model, its topology and tree, and functions that create and change models.

- `Model`: a mechanism: its tree of bodies and joints, and all of its parameters
- `Topology`: the static part of a model
- `Tree`: the tree of bodies and its traversals

Creation:

- `ModelBuilder`: builds a model from bodies, joints and attachments
- `GraphBuilder`: builds a model from a graph of bodies and joints, in any order, with any loops
- `reroot`: a floating model with another body as its root
- `denavit_hartenberg`: the Denavit–Hartenberg parameters of a chain
- `DenavitHartenberg`: the result of `denavit_hartenberg`, which can be converted to a model
- `Body`: one body, and the joint that attaches it
- `Mimic`: the coupling of a joint that follows another
- `Keyframe`: a named state that a model carries
- `Settings`: the simulation settings of a model file
- `check`: raises an error that names every invalid parameter of a model

Changes:

- `attach`: the model with sites, shapes, actuators, sensors and other attachments added
- `detach`: the model without some of its attachments
- `add_constraints`: the model with loops, couplings or prescribed motions added
- `lock_joints`: the model with some of its joints welded
- `fuse_fixed`: the model with welded bodies merged
- `rename`: the model with other names for bodies and joints
- `concatenate`: several models in one world
- `astype`: the model in another precision
- `at_time`: the model with rheonomic joints and attachments at a given time
- `planar`: the model on planar algebra, if it moves in a plane
- `with_traversal`: the model with another traversal of its tree

Configurations:

- `neutral`: the reference configuration
- `random_configuration`: a random configuration within the limits
- `integrate`: the configuration after moving at a constant velocity for unit time
- `difference`: the constant velocity that moves one configuration to another in unit time
- `configuration_rate`: the time derivative of the coordinates of q at a velocity
- `chart_velocity`: the velocity for a changing step in the tangent space
- `chart_rate`: the rate of a step in the tangent space at a velocity
"""

__all__ = [
    "Model",
    "Topology",
    "Tree",
    "ModelBuilder",
    "GraphBuilder",
    "reroot",
    "denavit_hartenberg",
    "DenavitHartenberg",
    "Body",
    "Mimic",
    "Keyframe",
    "Settings",
    "check",
    "attach",
    "detach",
    "add_constraints",
    "lock_joints",
    "fuse_fixed",
    "rename",
    "concatenate",
    "astype",
    "at_time",
    "planar",
    "with_traversal",
    "neutral",
    "random_configuration",
    "integrate",
    "difference",
    "configuration_rate",
    "chart_velocity",
    "chart_rate",
]

from .attachments import add_constraints as add_constraints, attach as attach, detach as detach
from .builder import Body as Body, Mimic as Mimic, ModelBuilder as ModelBuilder
from .check import check as check
from .configuration import (
    chart_rate as chart_rate,
    chart_velocity as chart_velocity,
    configuration_rate as configuration_rate,
    difference as difference,
    integrate as integrate,
    neutral as neutral,
    random_configuration as random_configuration,
)
from .denavit_hartenberg import (
    DenavitHartenberg as DenavitHartenberg,
    denavit_hartenberg as denavit_hartenberg,
)
from .edit import (
    astype as astype,
    at_time as at_time,
    concatenate as concatenate,
    fuse_fixed as fuse_fixed,
    lock_joints as lock_joints,
    rename as rename,
    with_traversal as with_traversal,
)
from .graph import GraphBuilder as GraphBuilder, reroot as reroot
from .keyframe import Keyframe as Keyframe
from .model import Model as Model
from .planar import planar as planar
from .settings import Settings as Settings
from .topology import Topology as Topology
from .tree import Tree as Tree
