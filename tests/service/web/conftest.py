import pytest
from service_bench import serving, spec

from confide.service.core.folder import ServiceFolder


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    folder = ServiceFolder(tmp_path_factory.mktemp("http") / "service")
    with serving(
        folder, spec(users=6000, every=2000), spec("local", trust="local", users=6000, every=2000)
    ) as made:
        yield made
