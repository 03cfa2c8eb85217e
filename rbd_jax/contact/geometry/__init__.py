"""Pairs of geometries: where they touch and how far they are apart, with derivatives; see `pairs`."""
