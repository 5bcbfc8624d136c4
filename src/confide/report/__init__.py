"""Charts, tables, numbers and pages.

matplotlib and Jinja2 are imported when they are needed.
"""
