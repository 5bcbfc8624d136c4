"""One file per published algorithm."""
