"""Agents for tabular MDPs: finitely many states and actions, with unknown transitions."""
