"""Mixtures of known kernels: what users contribute, how releases become plans, and the learners."""
