"""What a look at orders and money found."""

from msgspec import Struct


class PaymentFinding(Struct, frozen=True):
    finding: str
    subject: str
    detail: str
    # Whether it is being put right, or waits for a person.
    is_mended: bool


class PaymentReport(Struct, frozen=True):
    checked_at: int
    findings: list[PaymentFinding]
    parked: dict[str, int]

    @property
    def is_ok(self) -> bool:
        return not self.findings and not any(self.parked.values())
