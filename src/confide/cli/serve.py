"""confide serve: private learning from live users, over HTTP."""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from confide.cli.groups import with_groups

if TYPE_CHECKING:
    from confide.service.web.server import Listening
    from confide.service.web.setup import Opened

_WEB_PANEL = "Network"
STORAGE_PANEL = "Storage"
# The crowd of a demonstration has a fifth more users than the run takes, so that the run ends
# although some of them are turned away. A matter of taste.
_DEMO_SURPLUS = 5

Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="FOLDER",
        help="Folder of the keys, if it is not in the folder of the service.",
        show_default=False,
        rich_help_panel=STORAGE_PANEL,
    ),
]
Marks = Annotated[
    Path | None,
    typer.Option(
        "--marks",
        metavar="FOLDER",
        help="Folder of the marks, which record the newest release shown. It should be on another "
        "disk than the database and its backups.",
        show_default=False,
        rich_help_panel=STORAGE_PANEL,
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        envvar="CONFIDE_DATABASE",
        help="Address of a database in PostgreSQL, such as postgresql://user@host/name. Several "
        "processes may serve it.",
        show_default="SQLite in the folder",
        rich_help_panel=STORAGE_PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """Where a service keeps its database, keys and marks."""

    PANEL: ClassVar = STORAGE_PANEL

    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of the service: database, keys and marks. It is created at the first "
            "start.",
            show_default="NAME-service",
        ),
    ] = None
    keys: Keys = None
    marks: Marks = None
    database: Database = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """Where a service listens."""

    PANEL: ClassVar = _WEB_PANEL

    port: Annotated[int, typer.Option(help="HTTP port.", min=1, max=65535, show_default="8080")] = (
        8080
    )
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Address to listen on. Put a proxy with TLS in front of it."
        ),
    ] = "127.0.0.1"
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="Port of metrics for Prometheus, for operators only.", show_default="no metrics"
        ),
    ] = None
    metrics_host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address of the metrics. In a run with deadlines they are PRIVATE.",
        ),
    ] = "127.0.0.1"
    origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Origin of a web page that may call the service from a browser. Can be given "
            "several times.",
            show_default=False,
        ),
    ] = None


@with_groups
def serve(
    storage: StorageOptions,
    network: NetworkOptions,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUNS...", help="Files of runs (TOML).", show_default=False),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve a demonstration with simulated users.")
    ] = False,
    run_memory: Annotated[
        float,
        typer.Option(
            metavar="GIGABYTES",
            help="Memory that one run may need, by an estimate that is made before the run is.",
        ),
    ] = 1.0,
) -> None:
    """Serve runs over HTTP.

    Users report, the service learns, and everybody can read signed releases. To stop the service,
    press Ctrl-C or send SIGTERM.

    Examples:
        confide serve --demo
        confide serve run.toml --folder study --port 8080
    """
    from confide._extras import need
    from confide.arguments import real
    from confide.errors import InvalidParameter

    need("service", "confide serve")
    from confide.service.core.folder import ServiceFolder
    from confide.service.core.spec import read_spec
    from confide.service.web.server import Listening
    from confide.service.web.setup import DEMO, folder_of, open_service

    if not demo and not runs and storage.folder is None:
        raise InvalidParameter(
            "nothing to serve: "
            "give the file of a run, --folder of a service that has some, or --demo"
        )
    specs = [read_spec(path) for path in runs or ()]
    if demo:
        specs.append(DEMO)
    listening = Listening(
        network.host,
        network.port,
        network.metrics_port,
        network.metrics_host,
        tuple(network.origin or ()),
    )
    memory_bytes = round(1e9 * real("run_memory", run_memory, above=0))
    with ExitStack() as stack:
        folder = storage.folder
        if demo and folder is None:
            temporary = tempfile.TemporaryDirectory(prefix="confide-demo-")
            folder = Path(stack.enter_context(temporary)) / "service"
        service_folder = ServiceFolder(
            folder_of(specs[0] if specs else None, folder),
            keys=storage.keys,
            marks=storage.marks,
            address=storage.database,
        )
        opened = open_service(service_folder, specs, run_memory=memory_bytes)
        _print_runs(opened, listening)
        _start(opened, listening, demo)


def _print_runs(opened: "Opened", listening: "Listening") -> None:
    for name, run in sorted(opened.service.runs.items()):
        simulated = " SIMULATION: fast noise." if run.spec.noise == "fast" else ""
        typer.echo(f"run {name}: {run.learner.guarantee}.{simulated}")
        typer.echo(f"  {listening.url}/runs/{name}   signing key {run.manifest.key}")
    for name, cause in opened.service.not_ready.items():
        typer.echo(
            f"run {name} is not ready, and its reports are answered with 503: {cause}", err=True
        )
    for role, path in opened.key_files.items():
        typer.echo(f"API key for {role}: in the file {path}", err=True)


def _start(opened: "Opened", listening: "Listening", demo: bool) -> None:
    from confide.service.web.server import serve as listen

    def announce() -> None:
        typer.echo(f"serving at {listening.url}; stop with Ctrl-C")
        if demo:
            _send_crowd(opened, listening.url)

    listen(opened.service, listening, announce)


def _send_crowd(opened: "Opened", url: str) -> None:
    """Let simulated users come to the run of the demonstration."""
    from confide.mechanisms.sources import noise_source
    from confide.service.device.client import Accepts
    from confide.service.device.crowd import Crowd

    spec = opened.service.runs["demo"].spec
    crowd = Crowd(
        url,
        "demo",
        spec.make_problem(),
        api_key=_device_key(opened),
        accepts=Accepts(
            spec.epsilon, spec.delta, spec.trust, simulation=True, relation=spec.relation
        ),
        source=lambda: noise_source("fast"),
    )
    crowd.come(
        spec.users + spec.users // _DEMO_SURPLUS,
        at_once=2,
        stop=lambda: not opened.service.ready,
    )


def _device_key(opened: "Opened") -> str:
    """An API key for the simulated crowd: that of the first start, or a new one."""
    from confide.service.web.access import new_api_key

    if "device" in opened.key_files:
        return opened.key_files["device"].read_text().strip()
    return new_api_key(opened.service.store, "device", "simulated crowd", "command line")
