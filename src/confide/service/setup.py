"""From the file of a run to a service that can be started, and the demonstration."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from confide.service.access import new_api_key
from confide.service.core import Service
from confide.service.folder import ServiceFolder
from confide.service.spec import Batching, RunSpec

DEMO = RunSpec(
    name="demo",
    title="A demonstration: which way through the lock?",
    agent="likelihood-vi",
    problem="lock",
    epsilon=0.5,
    delta=1e-5,
    users=20_000,
    noise="fast",
    batch=Batching(schedule="geometric"),
)


@dataclass(frozen=True, slots=True)
class Opened:
    service: Service
    keys: dict[str, str]  # by role: API keys that were made now, and are shown once


def open_service(folder: ServiceFolder, specs: Sequence[RunSpec]) -> Opened:
    """The service in a folder with these runs. What is missing is made: the folder, its keys, API keys for an admin and for devices."""
    with folder.setting_up():
        if not folder.exists():
            folder.init()
        service = folder.open()
        try:
            for spec in specs:
                service.create(spec)
            roles = () if service.store.api_keys() else ("admin", "device")
            return Opened(service, {role: new_api_key(service.store, role, "first start", "command line") for role in roles})
        except BaseException:
            service.stop()
            raise


def folder_of(spec: RunSpec | None, given: Path | None) -> Path:
    return given or Path(f"{spec.name if spec else 'confide'}-service")
