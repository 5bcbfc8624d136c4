"""What everybody sees."""

from service_bench import Bench

from confide.service.web.public_view import public_view


def test_a_view_follows_from_manifest_and_releases(bench):
    run = bench.create(every=4, users=8)
    empty = public_view(run.manifest.body, bench.service.store.releases("demo"))
    assert (empty.users, len(empty.releases), empty.waits_for) == (0, 1, "the users of batch 0")
    for batch in range(2):
        bench.send(*(bench.report(f"{batch} {i}") for i in range(4)))
    view = public_view(run.manifest.body, bench.service.store.releases("demo"))
    assert (view.users, view.users_at_most, view.releases_at_most, view.simulation) == (
        8,
        8,
        2,
        True,
    )
    assert [each.generation for each in view.releases] == [2, 1, 0]
    assert [each.previous for each in view.releases[:2]] == [
        each.digest for each in view.releases[1:]
    ]
    assert view.releases[0].noise > 0 and view.releases[0].digest == run.release.digest
    assert (
        view.promise
        == "Whatever you do here, all other users together learn almost nothing about it "
        "(epsilon = 1, delta = 1e-05)."
    )
    assert "operator" in view.against and view.waits_for.startswith("nothing")


def test_local_runs_promise_more(folder):
    bench = Bench(folder)
    view = public_view(bench.create(trust="local").manifest.body, ())
    assert "not even this service" in view.promise and "on your device" in view.against
    assert view.users == 0
    bench.stop()
