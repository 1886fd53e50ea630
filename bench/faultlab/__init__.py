"""Faults that are really produced: one function a row of docs/reliability.md."""
