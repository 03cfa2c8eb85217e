"""Batches of samples, and the compiler option they profit from."""

from .batch import batch_map as batch_map
from .xla import xla_note as xla_note
