"""Linear MDPs: what users contribute, how releases become plans, and the learners."""
