"""Files that survive a crash or a full disk: a file, or a result of several files, is whole or not there.

A killed process leaves behind temporary files, which have a random token in their names (containers share process ids), and a lock, which
the kernel has released. The next process that writes to the same folder removes both.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from confide._locks import NO_FOLLOW, lock, open_lock
from confide.errors import InvalidParameter

LOCK = ".lock"
_TEMPORARY = re.compile(r"(?P<name>.+)\.[0-9a-f]{16}\.part")


def temporary(path: Path) -> Path:
    """A new name beside `path`, known to `leftovers`."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")


def leftovers(folder: Path, *names: str) -> list[Path]:
    """Temporary files and folders in `folder`, of these names only if any are given. Ask only where nobody else is writing."""
    found = ((path, _TEMPORARY.fullmatch(path.name)) for path in folder.iterdir())
    return [path for path, named in found if named and (not names or named["name"] in names)]


def clean(folder: Path, *names: str) -> None:
    """Remove what killed processes left in a folder, of these names only if any are given. Call it only where nobody else is writing."""
    for path in leftovers(folder, *names) if folder.is_dir() else []:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def replace(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write, sync, rename, sync the folder: after a crash the file is either the old one or the new one, whole."""
    # a device or a pipe has nothing to keep; a folder is an error
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    with _written(path, data, mode) as new:
        os.replace(new, path)
    sync(path.parent)


def create(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """The same for a file that must not exist yet: of several processes one makes it, and the others get FileExistsError."""
    for path_left in leftovers(path.parent, path.name):
        path_left.unlink(missing_ok=True)
    for _ in range(100):
        # another process may clean up, too
        with contextlib.suppress(FileNotFoundError), _written(path, data, mode) as new:
            _place(new, path)
            break
    else:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    sync(path.parent)


def _place(new: Path, path: Path) -> None:
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    # a file system without hard links: a kill in between leaves an empty file
    except (PermissionError, NotImplementedError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(new, path)


@contextlib.contextmanager
def _written(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """A temporary file beside `path`, on the disk."""
    new = temporary(path)
    try:
        with _naming(path):
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, mode)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        yield new
    finally:
        new.unlink(missing_ok=True)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """An error of the system, such as a full disk, names the file or folder that was written."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def make_folder(folder: Path) -> None:
    """With its parents, on the disk."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in made:
        sync(each.parent)


def make_private_folder(folder: Path, own_names: tuple[str, ...]) -> None:
    """Make a folder that only its owner can read, or take this right from others.

    `own_names`: patterns of the names of files that belong there. A folder that others can read, and that holds
    files with other names, is refused. It may be `/` or somebody's home, which must stay as it is.
    """
    make_folder(folder)
    if folder.stat().st_mode & 0o077 == 0:
        return
    for path in folder.iterdir():
        if not any(fnmatch(path.name, pattern) for pattern in own_names):
            raise InvalidParameter(
                f"cannot make {folder} private: it holds other files, such as {path.name}, which others may need to read. "
                "Choose a new folder"
            )
    folder.chmod(0o700)


def sync(path: Path) -> None:
    if sys.platform == "win32" and path.is_dir():
        return  # Windows writes the names of a folder by itself
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def replace_files(folder: Path, *, last: str) -> Iterator[Path]:
    """A folder to write the files of a result into; when the block ends, they take their places in `folder`.

    All are on the disk before the first one moves, so that a full disk does no harm to what was there. By the file `last` readers know a
    complete result: it is removed before the others move, and comes after them, so that it never stands beside files of another result.
    """
    make_folder(folder)
    stage = temporary(folder / "result")
    stage.mkdir()
    try:
        with _naming(folder):
            yield stage
        files = [path for path in sorted(stage.rglob("*")) if path.is_file()]
        for path in files:
            sync(path)
        if (folder / last).exists():
            (folder / last).unlink()
            sync(folder)
        places = {path: folder / path.relative_to(stage) for path in files if path != stage / last}
        for path, place in places.items():
            make_folder(place.parent)
            os.replace(path, place)
        for parent in sorted({place.parent for place in places.values()}):
            sync(parent)
        os.replace(stage / last, folder / last)
        sync(folder)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


@contextlib.contextmanager
def building(path: Path) -> Iterator[Path]:
    """Where to write a large file, which takes its place at `path` when the block ends; other files beside it are removed then.

    One process at a time, and without what killed processes left. Only the owner can read any of it.
    """
    folder = path.parent
    if path.exists() and not path.is_file():
        raise InvalidParameter(f"cannot write to {path}: it is not a file; choose another name")
    with _locked(folder, f".{path.name}{LOCK}"):
        clean(folder, path.name)
        place = temporary(path)
        place.mkdir(0o700)
        try:
            with _naming(path):
                yield place / path.name
            (place / path.name).chmod(0o600)
            sync(place / path.name)
            os.replace(place / path.name, path)
            sync(folder)
        finally:
            shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def output(folder: Path) -> Iterator[None]:
    """A folder for the results of one process at a time, made and checked before the work begins, without what killed processes left.

    After an error, folders that were made for nothing are removed.
    """
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        with _locked(folder):
            clean(folder)
            yield
    except BaseException:
        for each in made:
            with contextlib.suppress(OSError):  # there is something in it
                each.rmdir()
        raise


@contextlib.contextmanager
def _locked(folder: Path, name: str = LOCK) -> Iterator[None]:
    """The kernel releases the lock of a process that died. The file is removed under the lock, so whoever waits for it looks again."""
    path = folder / name
    try:
        make_folder(folder)
        handle = _lock(path)
    except (FileExistsError, NotADirectoryError):
        raise InvalidParameter(
            f"cannot write results to the folder {folder}: a file has this name; choose another folder"
        ) from None
    except BlockingIOError:
        raise InvalidParameter(
            f"another process is writing to {folder}: wait until it has ended, or choose another folder"
        ) from None
    except OSError as error:
        raise InvalidParameter(
            f"cannot write into {folder}: {error.strerror}; choose another folder"
        ) from None
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):  # Windows keeps a file that is open
            path.unlink(missing_ok=True)
        os.close(handle)


def _lock(path: Path) -> int:
    while True:
        handle = open_lock(path)
        try:
            lock(handle, wait=False)
            if os.path.exists(path) and os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
