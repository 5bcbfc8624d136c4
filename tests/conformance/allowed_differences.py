"""What may differ between two neighbouring inputs although the releases are the same, for both
neighbour tests.

Each entry has its reason. `tests/cli/test_neighbours.py` runs commands,
`tests/service/test_neighbours.py` a service.
"""

# Of answers over HTTP, by the name under which the test of the service notes them.
OF_THE_SERVICE = {
    "the answer to the target": (
        "only the device of the target reads it; the threat model lists what it says"
    ),
}
# What a test fixes before it compares, so that all bytes must be the same.
FIXED_BY_A_TEST = {
    "the token of a login form": "it is drawn at random for each reader of a page",
    "the clock": (
        "certificates, reports, charges and the duration of a run tell the time, which is public; "
        "the test stops all clocks"
    ),
}
