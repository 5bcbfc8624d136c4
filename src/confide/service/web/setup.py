"""From the file of a run to a service that can be started, and the demonstration."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from confide.service.core.folder import ServiceFolder
from confide.service.core.service import RUN_MEMORY_BYTES, Service
from confide.service.core.spec import Batching, ServiceRunSpec
from confide.service.web.access import draw_api_key

DEMO = ServiceRunSpec(
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
    """A service that can be started.

    `key_files` are the files of the API keys that were made at the first start, by role.
    """

    service: Service
    key_files: dict[str, Path]


def open_service(
    folder: ServiceFolder,
    specs: Sequence[ServiceRunSpec],
    *,
    run_memory: int = RUN_MEMORY_BYTES,
) -> Opened:
    """Open the service in a folder, with these runs.

    What is missing is made: the folder, its keys, the runs, and API keys for an admin and for
    devices.
    """
    folder.init()
    with folder.setting_up():
        service = folder.open(run_memory=run_memory)
        try:
            for spec in specs:
                service.create(spec)
            key_files = {} if service.store.api_keys() else _make_first_keys(service)
            return Opened(service, key_files)
        except BaseException:
            service.stop()
            raise


def _make_first_keys(service: Service) -> dict[str, Path]:
    """Make API keys for an admin and for devices, and return their files in the folder of keys.

    They are never printed, because what a service prints is kept in journals and logs of
    containers. A file is written before its key can be used. After a crash in between, the next
    start makes new keys.
    """
    keys = {role: draw_api_key(role, "first start") for role in ("admin", "device")}
    files = {role: service.keys.write_api_key(role, key.text) for role, key in keys.items()}
    with service.store.transaction() as tx:
        for key in keys.values():
            key.add_to(tx, "command line")
    return files


def folder_of(spec: ServiceRunSpec | None, given: Path | None) -> Path:
    """Return the folder that was given, or the one that a run has by default."""
    return given or Path(f"{spec.name if spec else 'confide'}-service")
