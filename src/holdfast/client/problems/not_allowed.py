# Generated from the endpoint table by `make docs`. Do not edit.

"""Reasons below `NotAllowed`."""

from holdfast.client import errors


class Unauthorized(errors.NotAllowed, reason="unauthorized"):
    """401: Credentials are missing, unknown, expired or revoked."""


class SignatureRefused(errors.NotAllowed, reason="signature_refused"):
    """401: The signature is missing, wrong or too old."""


class SignInRefused(errors.NotAllowed, reason="sign_in_refused"):
    """401: The email address or the password is wrong."""


class Forbidden(errors.NotAllowed, reason="forbidden"):
    """403: These credentials are valid but do not allow this."""


class TierRequired(errors.NotAllowed, reason="tier_required"):
    """403: This needs a higher account tier."""


class TicketInvalid(errors.NotAllowed, reason="ticket_invalid"):
    """403: The ticket is not yours, is for another sale, or has expired."""


class ProofRequired(errors.NotAllowed, reason="proof_required"):
    """403: This sale asks for proof of work."""


class ProofInvalid(errors.NotAllowed, reason="proof_invalid"):
    """403: This is not the solution of a challenge for this sale and buyer."""


class ProofExpired(errors.NotAllowed, reason="proof_expired"):
    """403: The challenge is too old."""


class ProofSpent(errors.NotAllowed, reason="proof_spent"):
    """403: This proof was used before."""


class JoinDenied(errors.NotAllowed, reason="join_denied"):
    """403: This account cannot join this sale."""


class DeviceRequired(errors.NotAllowed, reason="device_required"):
    """403: This sale asks for a token."""


class PaymentRequired(errors.NotAllowed, reason="payment_required"):
    """403: This sale is paid through Holdfast: only its payment confirms the reservation."""


class ApprovalByAnother(errors.NotAllowed, reason="approval_by_another"):
    """403: Only an operator who is signed in by name can approve, and never their own request."""
