"""Dot products by the dozen, mints watched stage by stage, and the same rows tuned by Kernel Tuner."""
