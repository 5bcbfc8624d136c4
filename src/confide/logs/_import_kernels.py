"""The loops of an import: hashes of ids, a table of known ids, and the order of rows.

tests/logs/test_import_kernels.py compares with plain NumPy. Hashes here only tell ids apart within
one import. Pseudonyms come from a keyed hash (identity.py).
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

# How many bits one pass of a radix sort looks at. A matter of taste: 6 passes are enough for 64
# bits.
_DIGIT_BITS = 11
# At most so many rows are sorted by insertion. A matter of taste.
_FEW_ROWS = 24


@njit
def bare(data: Bytes, low: int, high: int) -> tuple[int, int]:
    """Where a text starts and ends without the spaces around it.

    Spaces of no break (C2 A0 in UTF-8) are left out, too, and so is the `.0` of a whole number that
    was written as a float.
    """
    while low < high and (
        data[low] == 32
        or 9 <= data[low] <= 13
        or (data[low] == 0xC2 and low + 1 < high and data[low + 1] == 0xA0)
    ):
        low += 2 if data[low] == 0xC2 else 1
    while low < high and (
        data[high - 1] == 32
        or 9 <= data[high - 1] <= 13
        or (data[high - 1] == 0xA0 and high - 2 >= low and data[high - 2] == 0xC2)
    ):
        high -= 2 if data[high - 1] == 0xA0 else 1
    if high - low > 2 and data[high - 1] == 48 and data[high - 2] == 46:
        place = low
        while place < high - 2 and 48 <= data[place] <= 57:
            place += 1
        if place == high - 2:
            high -= 2
    return low, high


@njit
def hash_texts(offsets: npt.NDArray[np.int32], data: Bytes, seed: int, out: Words) -> None:
    """A seeded 64-bit hash of each text as `bare` leaves it; 0 where nothing is left."""
    odd = np.uint64(0x9E3779B97F4A7C15)
    other = np.uint64(0xD6E8FEB86659FD93)
    start = np.uint64(seed)
    for i in range(out.size):
        low, high = bare(data, offsets[i], offsets[i + 1])
        if low == high:
            out[i] = 0
            continue
        mixed = start ^ (np.uint64(high - low) * odd)
        place = low
        while place < high:
            word = np.uint64(0)
            shift = np.uint64(0)
            stop = min(place + 8, high)
            while place < stop:
                word |= np.uint64(data[place]) << shift
                shift += np.uint64(8)
                place += 1
            mixed = (mixed ^ word) * odd
            mixed = (mixed ^ (mixed >> np.uint64(32))) * other
            mixed ^= mixed >> np.uint64(29)
        mixed = (mixed ^ start) * odd
        mixed ^= mixed >> np.uint64(32)
        out[i] = max(mixed, np.uint64(1))


@njit
def hash_numbers(numbers: Ints, seed: int, out: Words) -> None:
    """The same for whole numbers; it is never 0."""
    odd = np.uint64(0x9E3779B97F4A7C15)
    other = np.uint64(0xD6E8FEB86659FD93)
    start = np.uint64(seed)
    for i in range(out.size):
        mixed = (np.uint64(numbers[i]) ^ start) * odd
        mixed = (mixed ^ (mixed >> np.uint64(32))) * other
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ start) * odd
        mixed ^= mixed >> np.uint64(32)
        out[i] = max(mixed, np.uint64(1))


@njit
def find(hashes: Words, table: Words, slots: Ints, fresh: Ints) -> int:
    """The slot of each hash in an open-addressing table, -1 for a hash of 0.

    New hashes are entered. Returns how many rows have a new hash: `fresh` are these rows. The size
    of the table is a power of two, and it has room.
    """
    mask = np.uint64(table.size - 1)
    new = 0
    for i in range(hashes.size):
        if hashes[i] == 0:
            slots[i] = -1
            continue
        at = hashes[i] & mask
        while table[at] != 0 and table[at] != hashes[i]:
            at = (at + np.uint64(1)) & mask
        if table[at] == 0:
            table[at] = hashes[i]
            fresh[new] = i
            new += 1
        slots[i] = np.int64(at)
    return new


@njit
def radix_order(keys: Words) -> Ints:
    """The stable order of the keys. Digits in which all agree are skipped."""
    n = keys.size
    size = 1 << _DIGIT_BITS
    order = np.arange(n)
    other = np.empty(n, np.int64)
    starts = np.empty(size, np.int64)
    mask = np.uint64(size - 1)
    for digit in range(6):
        shift = np.uint64(digit * _DIGIT_BITS)
        starts[:] = 0
        for i in range(n):
            starts[np.int64((keys[i] >> shift) & mask)] += 1
        if n == 0 or starts[np.int64((keys[0] >> shift) & mask)] == n:
            continue
        total = 0
        for d in range(size):
            starts[d], total = total, total + starts[d]
        for i in range(n):
            place = np.int64((keys[order[i]] >> shift) & mask)
            other[starts[place]] = order[i]
            starts[place] += 1
        order, other = other, order
    return order


@njit
def order_times(user: Words, time: Ints, order: Ints) -> None:
    """Put the rows of each user, who stand together in `order`, in the order of time.

    Rows of the same time stay in their order.
    """
    n = order.size
    first = 0
    while first < n:
        last = first + 1
        sorted_already = True
        while last < n and user[order[last]] == user[order[first]]:
            sorted_already = sorted_already and time[order[last - 1]] <= time[order[last]]
            last += 1
        if not sorted_already and last - first <= _FEW_ROWS:
            for i in range(first + 1, last):
                row = order[i]
                j = i
                while j > first and time[order[j - 1]] > time[row]:
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = row
        elif not sorted_already:
            some = order[first:last].copy()
            order[first:last] = some[np.argsort(time[some], kind="mergesort")]
        first = last


@njit
def order_stays(user: Words, stay: Words, order: Ints, number: Ints) -> None:
    """Put the stays of each user in the order of their first row in `order`.

    `number` [row] counts them from 0, and the rows of a stay are made to stand together.
    """
    n = order.size
    # The largest number of rows of a user.
    most = 1
    first = 0
    while first < n:
        last = first
        while last < n and user[order[last]] == user[order[first]]:
            last += 1
        most = max(most, last - first)
        first = last
    size = 2
    while size < 2 * most:
        size *= 2
    mask = np.uint64(size - 1)
    # A hash table of the stays of one user. A slot is that user's if its owner is their first row.
    table = np.zeros(size, np.uint64)
    numbers = np.empty(size, np.int64)
    owner = np.full(size, -1, np.int64)
    # How many rows each stay has, and a buffer for the rows of one user.
    counts = np.zeros(most + 1, np.int64)
    rows = np.empty(most, np.int64)
    first = 0
    while first < n:
        last = first
        stays = 0
        before = -1
        mixed_up = False
        while last < n and user[order[last]] == user[order[first]]:
            key = stay[order[last]]
            at = key & mask
            while owner[at] == first and table[at] != key:
                at = (at + np.uint64(1)) & mask
            if owner[at] != first:
                owner[at] = first
                table[at] = key
                numbers[at] = stays
                counts[stays] = 0
                stays += 1
            number[last] = numbers[at]
            counts[numbers[at]] += 1
            mixed_up = mixed_up or number[last] < before
            before = number[last]
            last += 1
        if mixed_up:
            total = 0
            for s in range(stays):
                counts[s], total = total, total + counts[s]
            for i in range(first, last):
                rows[counts[number[i]]] = order[i]
                counts[number[i]] += 1
            order[first:last] = rows[: last - first]
            number[first:last] = np.sort(number[first:last])
        first = last


@njit
def mark_subsumed_rows(starts: Ints, bits: Ints, missing: Flags, most: int, out: Flags) -> None:
    """Mark rows of a step that say nothing which another row of it does not say.

    Each of their cells is missing, or the same in the other row. The rows of step i are starts[i]
    <= row < starts[i + 1]. `bits` and `missing` are [column, row]. Steps of more than `most` rows
    are left alone.
    """
    for g in range(starts.size - 1):
        if starts[g + 1] - starts[g] > most:
            continue
        for i in range(starts[g], starts[g + 1]):
            for j in range(starts[g], starts[g + 1]):
                if i == j or out[j]:
                    continue
                same = True
                for column in range(bits.shape[0]):
                    if not missing[column, i] and (
                        missing[column, j] or bits[column, i] != bits[column, j]
                    ):
                        same = False
                        break
                if same:
                    out[i] = True
                    break
