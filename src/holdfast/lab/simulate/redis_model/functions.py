"""Runs a function library in Lua 5.1, the version that Redis embeds.

A library keeps no state between calls, so all servers of this process that have the same source share one interpreter.
"""

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from lupa import lua51  # type: ignore[import-untyped]

from holdfast.lab.simulate.redis_model.values import Refused, Reply, Status, Words, number_text

# The nesting limit of cmsgpack.
_MAX_NESTING = 16
_REGISTER = b"""
local register, call = ...
redis = {
  call = call,
  register_function = function(given, callback)
    if callback then return register(given, callback) end
    return register(given.function_name, given.callback, unpack(given.flags or {}))
  end,
}
"""

Call = Callable[[Words], Reply]


@dataclass
class Function:
    callback: Any
    flags: frozenset[bytes]


@dataclass
class Library:
    """The functions of one library source. `_call` is the server that is running one of them."""

    name: bytes
    text: bytes
    functions: dict[bytes, Function] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._call: Call | None = None
        self._lua = lua51.LuaRuntime(encoding=None, unpack_returned_tuples=True, register_eval=False)
        run = self._lua.eval(b"function(text, ...) return assert(loadstring(text))(...) end")
        run(_cmsgpack_text(), _pack_double, _unpack_double, _MAX_NESTING)
        run(_REGISTER, self._register, self._redis_call)
        # The first line names the library and is not Lua.
        run(self.text.partition(b"\n")[2])

    def run(self, function: Function, keys: Words, arguments: Words, call: Call) -> Reply:
        self._call = call
        try:
            returned = function.callback(self._lua.table_from(keys), self._lua.table_from(arguments))
        except lua51.LuaError as exc:
            raise Refused("ERR", str(exc).partition("\n")[0]) from None
        finally:
            self._call = None
        return _from_lua(returned)

    def _register(self, name: bytes, callback: Any, *flags: bytes) -> None:
        self.functions[name] = Function(callback, frozenset(flags))

    def _redis_call(self, *words: bytes | float) -> Any:
        assert self._call is not None
        return self._to_lua(self._call([word if isinstance(word, bytes) else number_text(word) for word in words]))

    def _to_lua(self, reply: Reply) -> Any:
        if reply is None:
            return False
        if isinstance(reply, list):
            return self._lua.table_from([self._to_lua(item) for item in reply])
        return self._lua.table_from({b"ok": bytes(reply)}) if isinstance(reply, Status) else reply


@lru_cache(maxsize=8)
def library(text: bytes) -> Library:
    first_line = text.partition(b"\n")[0]
    return Library(first_line.partition(b"name=")[2].strip(), text)


def _from_lua(returned: Any) -> Reply:
    if returned is None or returned is False:
        return None
    if isinstance(returned, bytes | int | float):
        return returned if isinstance(returned, bytes) else int(returned)
    if returned[b"ok"] is not None:
        return Status(returned[b"ok"])
    return [_from_lua(returned[index]) for index in range(1, len(returned) + 1)]


@lru_cache(maxsize=1)
def _cmsgpack_text() -> bytes:
    return (Path(__file__).parent / "cmsgpack.lua").read_bytes()


def _pack_double(value: float) -> bytes:
    is_single = ctypes.c_float(value).value == value
    return b"\xca" + struct.pack(">f", value) if is_single else b"\xcb" + struct.pack(">d", value)


def _unpack_double(text: bytes) -> float:
    value: float = struct.unpack(">f" if len(text) == 4 else ">d", text)[0]
    return value
