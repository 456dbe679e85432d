"""A rush that is stopped accounts for its whole crowd: who is inside, who has arrived, and who was yet to come."""

from time import monotonic

from rush_evidence import OFFER

from holdfast.lab.load.buyer_tokens import BuyerTokens
from holdfast.lab.load.client import LoadClient
from holdfast.lab.load.engines import free_port
from holdfast.lab.rush.buyers.behaviour import Behaviour
from holdfast.lab.rush.buyers.buyer import Buyer, BuyerContext
from holdfast.lab.rush.buyers.record import BuyerRecord, Ending
from holdfast.lab.rush.buyers.simulator import BuyerSimulator


async def test_everybody_who_has_not_ended_is_cut_off_whatever_they_went_through_before() -> None:
    context = BuyerContext(monotonic, lambda: 0.5, BuyerTokens("s" * 32))

    def make_buyer(number: int) -> Buyer:
        # As after a declined payment, with another card to try.
        return Buyer(BuyerRecord(number, f"b-{number}", 0, ending=Ending.DECLINED), Behaviour(), OFFER, context)

    # Nobody listens there.
    client = LoadClient("127.0.0.1", free_port(), 1)
    buyers = BuyerSimulator(client, monotonic(), make_buyer, edge_cache=False)
    buyers.begin([(0, 0.0), (1, 0.0), (2, 3_600.0)])
    assert buyers.tally.total("arrived") == 2
    buyers.cut_off()
    await buyers.done
    buyers.close()
    client.close()
    assert sorted(record.number for record in buyers.records) == [0, 1, 2]
    assert {record.ending for record in buyers.records} == {Ending.CUT_OFF}
    assert buyers.tally.totals("ending ") == {"cut_off": 3}
