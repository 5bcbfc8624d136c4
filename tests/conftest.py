import os

from hypothesis import settings

# Deadlines are timed asserts, and machines are noisy.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
