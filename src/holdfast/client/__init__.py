"""The Python client of the API: `Client` and `AsyncClient`, for your own programs.

It imports nothing else of Holdfast. The methods, response types and problem classes are generated from the endpoint
table by `make docs`; retries, waiting, pages and webhooks are written by hand. See docs/CLIENTS.md.
"""

from holdfast.client.async_client import AsyncClient
from holdfast.client.client import Client
from holdfast.client.conversation import Options
from holdfast.client.errors import (
    Conflict,
    HoldfastError,
    InvalidCall,
    InvalidSignature,
    NoAnswer,
    NotAllowed,
    NotFound,
    Problem,
    ServerProblem,
    TooManyRequests,
    UnexpectedAnswer,
    Unreachable,
    WaitTimedOut,
)
from holdfast.client.stream import StreamEvent
from holdfast.client.webhooks import WebhookEvent, verify_webhook

__all__ = [
    "AsyncClient",
    "Client",
    "Conflict",
    "HoldfastError",
    "InvalidCall",
    "InvalidSignature",
    "NoAnswer",
    "NotAllowed",
    "NotFound",
    "Options",
    "Problem",
    "ServerProblem",
    "StreamEvent",
    "TooManyRequests",
    "UnexpectedAnswer",
    "Unreachable",
    "WaitTimedOut",
    "WebhookEvent",
    "verify_webhook",
]
