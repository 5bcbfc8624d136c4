"""Optional parts of an installation: what each extra installs, and an error that names the extra."""

from importlib import metadata

from confide.errors import MissingExtra

EXTRAS = {  # as in pyproject.toml
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
    """Of a package; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def has_extra(extra: str) -> bool:
    return all(version(package) is not None for package in EXTRAS[extra])


def need(extra: str, what: str) -> None:
    """Refuse where an extra is not installed. `what` is the subject of the sentence."""
    missing = [package for package in EXTRAS[extra] if version(package) is None]
    if missing:
        raise MissingExtra(f"{what} needs {' and '.join(missing)}: pip install 'confide[{extra}]'")
