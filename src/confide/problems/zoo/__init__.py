"""Named problems with stable parameters and seeds: one file each family."""
