"""How named operators sign in: by invitation and password, or by OIDC. Each sign-in is recorded."""

from sqlalchemy import Connection
from uuid_utils import uuid7

from holdfast.access.console_sessions import Sessions
from holdfast.access.oidc import Identity, Oidc, SignInRefused
from holdfast.access.passwords import Passwords
from holdfast.ledger.access import operators as ledger
from holdfast.ledger.access.actions import Action, Actor, begin_action, end_action
from holdfast.ledger.access.console_sessions import Session, SignedIn
from holdfast.ledger.access.operators import Operator
from holdfast.ledger.engine.database import Database

NewSession = tuple[str, Session]


class Operators:
    def __init__(self, database: Database, sessions: Sessions, oidc: Oidc | None) -> None:
        self._database, self._sessions, self.oidc = database, sessions, oidc
        self._passwords = Passwords()

    async def accept(self, token: str, password: str) -> NewSession | None:
        """Accept an invitation. None if it does not exist or was used."""
        database = self._database
        if not await database.read(lambda c: ledger.is_open_invitation(c, token, database.now_ms(c))):
            return None
        hashed = await self._passwords.hash(password)

        def work(connection: Connection) -> NewSession | None:
            operator = ledger.accept(connection, token, hashed, self._database.now_ms(connection))
            return None if operator is None else self._begin(connection, operator, "invitation")

        return await self._database.write(work)

    async def sign_in(self, email: str, password: str) -> NewSession | None:
        found = await self._database.read(lambda c: ledger.find_by_email(c, email))
        if not await self._passwords.is_right(None if found is None else found.password_hash, password):
            return None
        assert found is not None
        operator_id, verified = found.operator_id, found.password_hash

        def work(connection: Connection) -> NewSession | None:
            if not ledger.lock_enabled_operator(connection, operator_id):
                return None
            operator = ledger.find_operator(connection, operator_id)
            # Hashing takes a while, and the password may have been changed or cleared since.
            if operator is None or operator.password_hash != verified:
                return None
            return self._begin(connection, operator, "password")

        return await self._database.write(work)

    async def sign_in_as(self, identity: Identity) -> NewSession:
        """Sign in by OIDC. Raises `SignInRefused` for an account that was not invited, or is disabled."""

        def work(connection: Connection) -> NewSession:
            operator = self._operator_of(connection, identity)
            if operator is None or not ledger.lock_enabled_operator(connection, operator.operator_id):
                raise SignInRefused("not_invited")
            return self._begin(connection, operator, "oidc")

        return await self._database.write(work)

    def _operator_of(self, connection: Connection, identity: Identity) -> Operator | None:
        linked = ledger.find_by_subject(connection, identity.issuer, identity.subject)
        if linked is not None or identity.email is None:
            return linked
        invited = ledger.find_by_email(connection, identity.email)
        if invited is None or invited.disabled_at is not None:
            return None
        now = self._database.now_ms(connection)
        if invited.invitation_expires_at is not None and invited.invitation_expires_at <= now:
            return None
        is_linked = ledger.link_subject(connection, invited.operator_id, identity.issuer, identity.subject, now)
        return invited if is_linked else None

    def _begin(self, connection: Connection, operator: Operator, method: str) -> NewSession:
        begun = self._sessions.begin_in(connection, SignedIn(operator_id=operator.operator_id, method=method))
        now, by = self._database.now_ms(connection), Actor(operator.name, operator.operator_id)
        action = Action(f"act_{uuid7().hex}", "sign_in", f"operator:{operator.operator_id}", by)
        begin_action(connection, action, None, None, now)
        end_action(connection, action, None, 200, None, now)
        return begun
