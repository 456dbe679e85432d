# Generated from the endpoint table by `make docs`. Do not edit.

"""Calls of `console`."""

from holdfast.client.call import Call
from holdfast.client.types.team import Session


def sign_in() -> Call[Session]:
    """Sign in to the console with a service key.

    Sets a cookie that is valid for half a day, and replaces the key if `Holdfast-Console: 1` is sent.
    """
    return Call(
        method="POST",
        path="/v1/console/session",
        answers={200: (Session,)},
    )


def get_session() -> Call[Session]:
    """Who is signed in."""
    return Call(
        method="GET",
        path="/v1/console/session",
        answers={200: (Session,)},
    )


def sign_out() -> Call[None]:
    """Sign out.

    Takes effect on every server from the next request on.
    """
    return Call(
        method="DELETE",
        path="/v1/console/session",
        answers={204: ()},
    )
