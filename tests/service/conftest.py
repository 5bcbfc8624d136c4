import pytest
from service_bench import Bench

from confide.service.folder import ServiceFolder


@pytest.fixture
def folder(tmp_path):
    return ServiceFolder(tmp_path / "service")


@pytest.fixture
def bench(folder):
    made = Bench(folder)
    yield made
    folder.let_go()
