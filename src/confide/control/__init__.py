"""Linear systems with quadratic costs: what users contribute, how releases become gains, and the
controllers.
"""
