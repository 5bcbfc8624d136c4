"""What everybody may read: signed documents with tags, and readiness."""

from service_bench import problem, report, serving, spec

from confide.service.core.live_runs import Failure
from confide.service.documents import Statement, check_signature, digest

RUN = "/v1/runs/demo"


def test_documents_are_signed_and_tagged(http):
    run = http.service.runs["demo"]
    manifest = http.get(f"{RUN}/manifest")
    public = bytes.fromhex(manifest.json()["key"]["public"])
    signature = bytes.fromhex(manifest.headers["confide-signature"])
    check_signature(
        public, signature, Statement("manifest", "demo", "", 0, digest(manifest.content)).to_bytes()
    )
    assert manifest.json()["simulation"] is True
    for path in ("manifest", "certificate", "release", "release/0", "round/0"):
        answer = http.get(f"{RUN}/{path}")
        assert answer.status_code == 200 and answer.headers["x-content-type-options"] == "nosniff"
        again = http.get(f"{RUN}/{path}", **{"If-None-Match": answer.headers["etag"]})
        assert again.status_code == 304 and again.content == b""
    release = http.get(f"{RUN}/release")
    assert release.content == run.release.body and release.headers["confide-generation"] == "0"
    assert release.headers["confide-previous"] == digest(manifest.content)
    assert (
        "immutable" in http.get(f"{RUN}/release/0").headers["cache-control"]
        and "no-cache" in release.headers["cache-control"]
    )
    problem(http.get(f"{RUN}/release/7"), 404, "unknown")
    problem(http.get(f"{RUN}/round/7"), 404, "unknown")
    assert [key["id"] for key in http.get(f"{RUN}/keys").json()["keys"]] == [run.manifest.key]
    assert http.get("/v1/runs").json() == {"runs": ["demo", "local"]}


def test_readiness_follows_the_writer(folder):
    with serving(folder, spec()) as http:
        assert http.get("/health").json() == {"alive": True}
        assert http.get("/ready").status_code == 200
        http.service._live.failures["demo"] = Failure("a test")
        answer = http.get("/ready")
        assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
        assert report(http).status_code == 201  # it reads the store again, and goes on
        assert http.get("/ready").status_code == 200
