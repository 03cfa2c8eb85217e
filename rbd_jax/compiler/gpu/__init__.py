"""Kernels of GPUs."""
