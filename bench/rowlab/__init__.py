"""Rows of the catalogue made one by one: with values that the grid need not have, as objects or as libraries."""
