"""A user's side of a service. It needs no compiler and no planner."""
