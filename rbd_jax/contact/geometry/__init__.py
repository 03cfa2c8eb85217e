"""Contact points and signed distances of pairs of geometries, with derivatives; see `pairs`."""
