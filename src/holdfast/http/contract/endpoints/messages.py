"""Messages to buyers: who wants them, and what was sent."""

from functools import partial

from holdfast.http.contract import message_problems, problems
from holdfast.http.contract.endpoint import (
    OPERATE,
    PUBLIC,
    READ_OPERATE,
    Answers,
    Document,
    Endpoint,
    Priority,
    buyer,
)
from holdfast.http.contract.schemas.messages import ContactIn, ContactOut, MessageOut, MessagePage, MessageQuery

_endpoint = partial(Endpoint, tag="messages", priority=Priority.READ)
_BUYERS = buyer("Only buyers have contacts; send a buyer token.")

GET_CONTACT = _endpoint(
    "get_contact",
    "GET /v1/me/contact",
    summary="Where you get messages",
    access=_BUYERS,
    answers={200: Answers("The contact", ContactOut)},
    problems=(message_problems.CONTACT_NOT_FOUND,),
)
PUT_CONTACT = _endpoint(
    "put_contact",
    "PUT /v1/me/contact",
    summary="Ask for messages",
    description="For buyers: your turn, order confirmed, payment declined, order cancelled, refunded, sold out, and "
    "the next sale if asked for. Nobody gets messages without having asked. Every mail has a link that ends them. "
    "`push` adds a browser that gets notifications.",
    access=_BUYERS,
    body=ContactIn,
    answers={200: Answers("The contact", ContactOut)},
    problems=(message_problems.MESSAGES_OFF, problems.NOT_READY),
    example={"email": "ada@example.com", "locale": "de", "next_sale": True},
)
DELETE_CONTACT = _endpoint(
    "delete_contact",
    "DELETE /v1/me/contact",
    summary="End all messages",
    access=_BUYERS,
    answers={204: Answers("Ended")},
    problems=(problems.NOT_READY,),
)
LIST_MESSAGES = _endpoint(
    "list_messages",
    "GET /v1/ops/messages",
    summary="What was sent to buyers, newest first",
    access=READ_OPERATE,
    priority=Priority.CONSOLE,
    query=MessageQuery,
    answers={200: Answers("Messages", MessagePage)},
)
RESEND_MESSAGE = _endpoint(
    "resend_message",
    "POST /v1/ops/messages/{message_id}/resend",
    summary="Resend a message that failed, was dropped or may be lost",
    description="A message that was sent, or is about to be, is not changed.",
    access=OPERATE,
    priority=Priority.CONSOLE,
    answers={200: Answers("The message", MessageOut)},
    problems=(message_problems.MESSAGE_NOT_FOUND,),
)
_page = partial(
    Endpoint,
    access=PUBLIC,
    priority=Priority.READ,
    answers={200: Answers("A page", Document("text/html"))},
    checks_path=False,
    is_documented=False,
)
UNSUBSCRIBE_PAGE = _page("unsubscribe_page", "GET /unsubscribe/{token}", "Ask for confirmation before ending messages")
# Mail programs post here at one click (RFC 8058). A GET changes nothing: scanners of mail follow every link.
UNSUBSCRIBE = _page("unsubscribe", "POST /unsubscribe/{token}", "End messages without signing in")
