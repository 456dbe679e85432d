"""What may be committed: never past a message whose work is not done."""

from holdfast.streams.kafka.offsets import Offsets


def test_messages_that_are_done_out_of_order_are_committed_in_order() -> None:
    offsets = Offsets()
    first, second, third = (offsets.begin(0, number) for number in (10, 11, 12))
    offsets.finish(0, second)
    assert offsets.take() == {}, "the one before it is not done"
    offsets.finish(0, first)
    assert offsets.take() == {0: 12}
    assert offsets.take() == {}, "taken already"
    offsets.finish(0, third)
    assert offsets.take() == {0: 13}


def test_partitions_do_not_wait_for_one_another() -> None:
    offsets = Offsets()
    offsets.begin(0, 5)
    offsets.finish(1, offsets.begin(1, 7))
    assert offsets.take() == {1: 8}


def test_what_could_not_be_committed_is_given_again_unless_more_was_done() -> None:
    offsets = Offsets()
    offsets.finish(0, offsets.begin(0, 1))
    offsets.finish(1, offsets.begin(1, 1))
    reached = offsets.take()
    offsets.finish(0, offsets.begin(0, 2))
    offsets.give_back(reached)
    assert offsets.take() == {0: 3, 1: 2}


def test_a_partition_that_was_lost_is_not_committed_any_more() -> None:
    offsets = Offsets()
    tracked = offsets.begin(0, 1)
    offsets.forget([0])
    offsets.finish(0, tracked)
    assert offsets.take() == {}
