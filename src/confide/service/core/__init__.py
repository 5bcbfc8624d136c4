"""The core of a service: runs, reports, releases.

It knows no web framework and no dialect of SQL.
"""
