"""Operators' passwords: argon2id, at most two at a time, in threads.

Each hash takes 64 MiB and tens of milliseconds, on purpose. So sign-ins wait for one another, and an account that does
not exist takes as long as one that does.
"""

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

PASSWORD_MIN, PASSWORD_MAX = 12, 256
AT_ONCE = 2


class Passwords:
    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._nobody: str | None = None

    async def hash(self, password: str) -> str:
        async with self._turns:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def is_right(self, known: str | None, password: str) -> bool:
        """None for an account without a password."""
        async with self._turns:
            if known is None and self._nobody is None:
                self._nobody = await asyncio.to_thread(self._hasher.hash, "nobody has this password")
            return await asyncio.to_thread(self._verify, known or self._nobody or "", password) and known is not None

    def _verify(self, known: str, password: str) -> bool:
        try:
            return self._hasher.verify(known, password)
        except (VerificationError, InvalidHashError):
            return False
