"""What the file of a saved problem says about its arrays, without reading them."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from confide.arguments import regular_file

# Only scalars of at most so many bytes are read.
_MAX_SCALAR_BYTES = 1000


@dataclass(frozen=True, slots=True)
class Headers:
    """The shapes of the arrays in a file, the values of scalars, and the bytes of all arrays."""

    shapes: dict[str, tuple[int, ...]]
    scalars: dict[str, Any]
    total: int


def read_headers(path: str | Path) -> Headers:
    """Read the headers of a file. NumPy's own errors are raised if the file is damaged."""
    shapes: dict[str, tuple[int, ...]] = {}
    scalars: dict[str, Any] = {}
    total = 0
    with open(regular_file(path), "rb") as file, np.load(file, allow_pickle=False) as data:
        for member_name in data.zip.namelist():
            name = member_name.removesuffix(".npy")
            with data.zip.open(member_name) as member:
                version = np.lib.format.read_magic(member)
                if version == (1, 0):
                    read_header = np.lib.format.read_array_header_1_0
                else:
                    read_header = np.lib.format.read_array_header_2_0
                shapes[name], _, dtype = read_header(member)
            size = math.prod(shapes[name]) * dtype.itemsize
            total += size
            if shapes[name] == () and size <= _MAX_SCALAR_BYTES:
                scalars[name] = data[name].item()
    return Headers(shapes, scalars, total)
