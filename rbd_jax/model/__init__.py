"""The model, its topology and tree, and the ways to make one."""

from .builder import Body as Body, Mimic as Mimic, ModelBuilder as ModelBuilder
from .configuration import (
    configuration_rate as configuration_rate,
    difference as difference,
    integrate as integrate,
    neutral as neutral,
    random_configuration as random_configuration,
)
from .model import Model as Model
from .topology import Topology as Topology
from .tree import Tree as Tree
