"""confide serve: private learning from live users, over HTTP."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from confide.service.web.server import Listening
    from confide.service.web.setup import Opened

Folder = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the service: database, keys and marks. It is created at the first start.",
        show_default="NAME-service",
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        help="Folder of the keys, if it is not in the folder of the service.",
        show_default=False,
    ),
]
Marks = Annotated[
    Path | None,
    typer.Option(
        "--marks",
        help="Folder of the marks, which record the newest release shown; preferably on another disk than the database and its backups.",
        show_default=False,
    ),
]

Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="CONFIDE_DATABASE",
        help="Address of a database in PostgreSQL, such as postgresql://user@host/name: several processes may serve it.",
        show_default="SQLite in the folder",
    ),
]


def serve(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Files of runs (TOML).", show_default=False)
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve a demonstration with simulated users.")
    ] = False,
    port: Annotated[int, typer.Option(help="HTTP port.", min=1, max=65535)] = 8080,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Put a proxy with TLS in front of it.")
    ] = "127.0.0.1",
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="Port of metrics for Prometheus, for operators only.", show_default="no metrics"
        ),
    ] = None,
    metrics_host: Annotated[
        str,
        typer.Option(help="Address to give metrics at. In a run with deadlines they are PRIVATE."),
    ] = "127.0.0.1",
    run_memory: Annotated[
        float,
        typer.Option(
            help="Memory that one run may need, in GB, by an estimate that is made before the run is."
        ),
    ] = 1.0,
    folder: Folder = None,
    keys: Keys = None,
    marks: Marks = None,
    database: Database = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            help="Origin of a web page that may call the service from a browser.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve runs: users report, the service learns, and everybody can read signed releases."""
    from confide._extras import need
    from confide.arguments import real
    from confide.errors import InvalidParameter

    need("service", "confide serve")
    from confide.service.core.folder import ServiceFolder
    from confide.service.core.spec import read_spec
    from confide.service.web.server import Listening
    from confide.service.web.setup import DEMO, folder_of, open_service

    if not demo and not runs and folder is None:
        raise InvalidParameter(
            "nothing to serve: give the file of a run, --folder of a service that has some, or --demo"
        )
    specs = [read_spec(path) for path in runs or ()] + ([DEMO] if demo else [])
    listening = Listening(host, port, metrics_port, metrics_host, tuple(origin or ()))
    with ExitStack() as stack:
        place = folder
        if demo and folder is None:
            place = (
                Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="confide-demo-")))
                / "service"
            )
        where = folder_of(specs[0] if specs else None, place)
        service_folder = ServiceFolder(where, keys=keys, marks=marks, address=database)
        opened = open_service(
            service_folder, specs, run_memory=round(1e9 * real("run_memory", run_memory, above=0))
        )
        _say(opened, listening)
        _start(opened, listening, demo)


def _say(opened: "Opened", listening: "Listening") -> None:
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
    from confide.mechanisms.sources import noise_source
    from confide.service.device.client import Accepts
    from confide.service.device.crowd import Crowd
    from confide.service.web.server import serve as listen

    def started() -> None:
        typer.echo(f"serving at {listening.url}; stop with Ctrl-C")
        if demo:
            spec = opened.service.runs["demo"].spec
            accepts = Accepts(
                spec.epsilon, spec.delta, spec.trust, simulation=True, relation=spec.relation
            )
            key = _device_key(opened)
            crowd = Crowd(
                listening.url,
                "demo",
                spec.world(),
                api_key=key,
                accepts=accepts,
                source=lambda: noise_source("fast"),
            )
            crowd.come(
                spec.users + spec.users // 5, at_once=2, stop=lambda: not opened.service.ready
            )

    listen(opened.service, listening, started)


def _device_key(opened: "Opened") -> str:
    """For the simulated crowd: the key of the first start, or a new one."""
    from confide.service.web.access import new_api_key

    if "device" in opened.key_files:
        return opened.key_files["device"].read_text().strip()
    return new_api_key(opened.service.store, "device", "simulated crowd", "command line")
