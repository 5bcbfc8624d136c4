import os

import pytest
from postgres_cluster import cluster, programs
from service_bench import Bench

from confide.service.core.folder import ServiceFolder


@pytest.fixture(scope="session")
def postgres():
    """A server of its own."""
    where = programs()
    if where is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "PostgreSQL is not installed: apt-get install postgresql"
        )
    with cluster(where) as made:
        yield made


@pytest.fixture
def folder(request, tmp_path):
    """With a database in SQLite, or as the test is parametrised."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return ServiceFolder(tmp_path / "service")
    return ServiceFolder(tmp_path / "service", address=request.getfixturevalue("postgres").url())


@pytest.fixture
def bench(folder):
    made = Bench(folder)
    yield made
    made.service.store.close()
    folder.let_go()
