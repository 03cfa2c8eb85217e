"""The model, its topology and tree, and the ways to make one."""

from .attachments import add_constraints as add_constraints
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
from .edit import (
    astype as astype,
    at_time as at_time,
    concatenate as concatenate,
    fuse_fixed as fuse_fixed,
    lock_joints as lock_joints,
    rename as rename,
    with_traversal as with_traversal,
)
from .mjcf import load_mjcf as load_mjcf
from .model import Model as Model
from .topology import Topology as Topology
from .tree import Tree as Tree
from .urdf import load_urdf as load_urdf
