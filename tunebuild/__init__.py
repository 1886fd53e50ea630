"""tunebuild: a declarative build system for tuned native kernels."""

__version__ = "0.1.0"
