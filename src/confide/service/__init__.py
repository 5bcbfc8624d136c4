"""confide serve: private learning from live users.

`Service` is the core, `app` speaks HTTP, and `Device` is a user's side.
"""
