"""Internals that all packages share: arrays, arguments, errors, compiled functions, derivatives, files."""
