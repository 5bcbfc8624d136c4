"""What the file of a saved problem says about its arrays, without reading them."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from confide.arguments import regular_file

_LARGEST_SCALAR = 1000  # bytes


@dataclass(frozen=True, slots=True)
class Headers:
    """Of the arrays in a file: shapes, the values of those without dimensions, and the bytes of all arrays."""

    shapes: dict[str, tuple[int, ...]]
    scalars: dict[str, Any]
    total: int


def read_headers(path: str | Path) -> Headers:
    """Raises what NumPy raises if the file is damaged."""
    shapes: dict[str, tuple[int, ...]] = {}
    scalars: dict[str, Any] = {}
    total = 0
    with open(regular_file(path), "rb") as file, np.load(file, allow_pickle=False) as data:
        for member_name in data.zip.namelist():
            name = member_name.removesuffix(".npy")
            with data.zip.open(member_name) as member:
                version = np.lib.format.read_magic(member)
                read = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shapes[name], _, dtype = read(member)
            size = math.prod(shapes[name]) * dtype.itemsize
            total += size
            if shapes[name] == () and size <= _LARGEST_SCALAR:
                scalars[name] = data[name].item()
    return Headers(shapes, scalars, total)
