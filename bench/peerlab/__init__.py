"""The catalogue beside other libraries: what is called, how it is timed, how it is told."""
