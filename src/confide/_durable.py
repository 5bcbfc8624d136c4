"""Files that survive a crash or a full disk.

A file, or a result of several files, is whole or not there. A killed process leaves behind
temporary files and a lock, which the kernel has released. The next process that writes to the same
folder removes both. The names of temporary files have a random token, and no process id, because
containers share process ids.
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

# The name of the lock of a folder.
LOCK = ".lock"
# How often `create` tries again when another process has removed its temporary file. Taste.
_TRIES = 100
_TEMPORARY = re.compile(r"(?P<name>.+)\.[0-9a-f]{16}\.part")


def temporary(path: Path) -> Path:
    """A new name beside `path`, known to `leftovers`."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")


def leftovers(folder: Path, *names: str) -> list[Path]:
    """Temporary files and folders in `folder`. If names are given, only those of these names.

    Call this only where nobody else is writing.
    """
    paths = []
    for path in folder.iterdir():
        match = _TEMPORARY.fullmatch(path.name)
        if match and (not names or match["name"] in names):
            paths.append(path)
    return paths


def clean(folder: Path, *names: str) -> None:
    """Remove what killed processes left in a folder. If names are given, only what has these names.

    Call this only where nobody else is writing.
    """
    if not folder.is_dir():
        return
    for path in leftovers(folder, *names):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def replace(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write a file so that after a crash it is either the old one or the new one, and whole."""
    # A device or a pipe has nothing to keep, and is written to directly. A folder is an error.
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    with _written(path, data, mode) as new:
        os.replace(new, path)
    sync(path.parent)


def create(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write a file that must not exist yet.

    Of several processes one makes it, and the others get FileExistsError.
    """
    for leftover in leftovers(path.parent, path.name):
        leftover.unlink(missing_ok=True)
    for _ in range(_TRIES):
        # Another process may remove this process's temporary file as a leftover.
        with contextlib.suppress(FileNotFoundError), _written(path, data, mode) as new:
            _place(new, path)
            break
    else:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    sync(path.parent)


def _place(new: Path, path: Path) -> None:
    """Give the temporary file its name, unless there is a file of this name."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except (PermissionError, NotImplementedError):
        # A file system without hard links. A kill between the two steps leaves an empty file.
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
    """Make a folder and its parents. They are on the disk when this returns."""
    new_folders = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for new_folder in new_folders:
        sync(new_folder.parent)


def make_private_folder(folder: Path, own_names: tuple[str, ...]) -> None:
    """Make a folder that only its owner can read, or take this right from others.

    `own_names` are patterns of the names of files that belong there. A folder that others can read,
    and that holds files with other names, is refused. It may be `/` or somebody's home, which must
    stay as it is.
    """
    make_folder(folder)
    if folder.stat().st_mode & 0o077 == 0:
        return
    for path in folder.iterdir():
        if not any(fnmatch(path.name, pattern) for pattern in own_names):
            raise InvalidParameter(
                f"cannot make {folder} private: it holds other files, such as {path.name}, "
                "which others may need to read. Choose a new folder"
            )
    folder.chmod(0o700)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    # Windows writes the names of a folder by itself.
    if sys.platform == "win32" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def replace_files(folder: Path, *, last: str) -> Iterator[Path]:
    """Replace the files of a result in `folder`, all or none.

    The block writes them into the folder that it gets. When the block ends, they take their places
    in `folder`. All are on the disk before the first one moves, so a full disk does no harm to what
    was there. Readers know a complete result by the file `last`. It is removed before the others
    move, and comes after them, so it never stands beside files of another result.
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
    """Write a large file, which takes its place at `path` when the block ends.

    The block gets the path to write to. It may write other files beside it, which are removed at
    the end. Only one process at a time can do this for one path. What killed processes left is
    removed. Only the owner can read any of it.
    """
    folder = path.parent
    if path.exists() and not path.is_file():
        raise InvalidParameter(f"cannot write to {path}: it is not a file; choose another name")
    with _folder_lock(folder, f".{path.name}{LOCK}"):
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
    """Hold a folder for the results of one process at a time.

    The folder is made and checked before the work begins, and what killed processes left is
    removed. After an error, folders that were made for nothing are removed.
    """
    new_folders = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        with _folder_lock(folder):
            clean(folder)
            yield
    except BaseException:
        for new_folder in new_folders:
            # There may be something in it.
            with contextlib.suppress(OSError):
                new_folder.rmdir()
        raise


@contextlib.contextmanager
def _folder_lock(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Hold the lock of a folder. The kernel releases the lock of a process that died.

    The file of the lock is removed under the lock. So `_lock` checks that the file that it has
    locked is still there.
    """
    path = folder / name
    try:
        make_folder(folder)
        handle = _lock(path)
    except (FileExistsError, NotADirectoryError):
        raise InvalidParameter(
            f"cannot write results to the folder {folder}: a file has this name; "
            "choose another folder"
        ) from None
    except BlockingIOError:
        raise InvalidParameter(
            f"another process is writing to {folder}: "
            "wait until it has ended, or choose another folder"
        ) from None
    except OSError as error:
        raise InvalidParameter(
            f"cannot write into {folder}: {error.strerror}; choose another folder"
        ) from None
    try:
        yield
    finally:
        # Windows does not remove a file that is open.
        with contextlib.suppress(PermissionError):
            path.unlink(missing_ok=True)
        os.close(handle)


def _lock(path: Path) -> int:
    """Take the lock on the file at `path`. Closing the returned handle releases it."""
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
