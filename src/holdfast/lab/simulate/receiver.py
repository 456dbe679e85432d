"""The receiver of webhooks: it accepts a delivery, possibly more than once, or fails."""

from holdfast.lab.simulate.channel import Channel, NoAnswer, NotReached
from holdfast.lab.simulate.faults import Fault, Kind
from holdfast.ledger.events.deliveries import Attempt, Delivery
from holdfast.ledger.events.webhooks import Webhook
from holdfast.webhooks.sender import SEND_TIMEOUT_S, Answer, Sender


class Receiver:
    def __init__(self) -> None:
        # In the order of arrival, including duplicates.
        self.received: list[Delivery] = []


class SimulatedSender(Sender):
    """Sends to the run's receiver instead of a socket."""

    def __init__(self, channel: Channel, receiver: Receiver) -> None:
        self._channel, self._receiver = channel, receiver

    async def close(self) -> None:
        """Nothing to close."""

    async def send(self, webhook: Webhook, delivery: Delivery, now: int) -> Answer:
        def carry_out(fault: Fault | None) -> int:
            if fault is not None and fault.kind is Kind.REFUSED:
                return 500
            self._receiver.received.append(delivery)
            return 200

        try:
            status = await self._channel.call(f"deliver {delivery.delivery_id}", carry_out, SEND_TIMEOUT_S)
        except NotReached:
            return Answer(Attempt(now, 0, None, "unreachable"))
        except NoAnswer:
            return Answer(Attempt(now, 0, None, "timeout"))
        return Answer(Attempt(now, 0, status, None))
