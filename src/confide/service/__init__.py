"""confide serve: private learning from live users. `Service` is the core, `app` speaks HTTP, `Device` is a user's side."""
