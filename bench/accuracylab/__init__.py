"""The catalogue against float64: what is computed, on which data, and how far off it is."""
