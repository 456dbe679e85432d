"""Whether the kernel's clock is synchronised, as the kernel itself says."""

import ctypes
import struct

from holdfast.cli.doctor.finding import Finding, ok, warn
from holdfast.cli.doctor.tables import FIX_CLOCK

# `struct timex` of Linux on 64 bits: an int, then longs; the status follows the estimated error. It is 208 bytes.
_SIZE, _MAXERROR, _STATUS = 256, 24, 40
_UNSYNCHRONISED = 0x40
ERROR_WANTED_MS = 1_000


def check_synchronised() -> Finding:
    read = _read()
    if read is None:
        return warn("time", "whether the clock is synchronised cannot be determined here", FIX_CLOCK)
    status, error_us = read
    if status & _UNSYNCHRONISED:
        found = "the kernel's clock is not synchronised: sales open early or late, and tokens expire wrongly"
        return warn("time", found, FIX_CLOCK)
    found = f"synchronised, at most {error_us / 1000:,.0f} ms off"
    return ok("time", found) if error_us < ERROR_WANTED_MS * 1000 else warn("time", found, FIX_CLOCK)


def _read() -> tuple[int, int] | None:
    """The status and the maximum error in microseconds. Reading needs no rights."""
    buffer = ctypes.create_string_buffer(_SIZE)
    try:
        answer = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
    except (AttributeError, OSError):
        return None
    if answer < 0:
        return None
    [error_us] = struct.unpack_from("l", buffer, _MAXERROR)
    [status] = struct.unpack_from("i", buffer, _STATUS)
    return status, error_us
