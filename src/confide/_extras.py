"""Optional parts of an installation: what each extra installs, and an error that names it."""

from importlib import metadata

from confide.errors import MissingExtra

# The packages of each extra, as in pyproject.toml.
EXTRAS = {
    "report": ("matplotlib", "jinja2"),
    "logs": ("pyarrow",),
    "compare": ("matplotlib", "jinja2", "pyarrow"),
    "accounting": ("dp-accounting",),
    "secure": ("opendp",),
    "service": (
        "starlette",
        "uvicorn",
        "cryptography",
        "rfc8785",
        "prometheus-client",
        "jinja2",
        "msgspec",
    ),
    "gym": ("gymnasium",),
    "icu": ("icu-sepsis",),
    "cluster": ("ray", "distributed"),
    "control": ("control",),
    "minari": ("minari",),
}


def version(package: str) -> str | None:
    """The version of a package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def has_extra(extra: str) -> bool:
    """Whether all packages of an extra are installed."""
    return all(version(package) is not None for package in EXTRAS[extra])


def need(extra: str, what: str) -> None:
    """Raise an error if an extra is not installed. `what` is the subject of its sentence."""
    missing = [package for package in EXTRAS[extra] if version(package) is None]
    if missing:
        raise MissingExtra(f"{what} needs {' and '.join(missing)}: pip install 'confide[{extra}]'")
