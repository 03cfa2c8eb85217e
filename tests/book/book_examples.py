"""Models for the book's examples."""

import numpy as np

import rbd_jax as rbd
from rbd_jax import joints


def zigzag_arm(links):
    """Returns a planar arm of unit rods about z: unit mass and length, central inertia 1/12 (fig. 10.3 of the book)."""
    builder = rbd.ModelBuilder(gravity=(0.0, 0.0, 0.0), name="zigzag")
    rod = rbd.Inertia.from_mass_com(1.0, (0.5, 0.0, 0.0), np.diag([0.01, 1 / 12, 1 / 12]))
    parent, placement = "world", rbd.Transform.identity()
    for link in range(links):
        parent = builder.add_body(f"link{link}", parent, joints.Revolute(), placement, rod)
        placement = rbd.Transform.from_xyz_rpy((1.0, 0.0, 0.0))
    return builder.build()
