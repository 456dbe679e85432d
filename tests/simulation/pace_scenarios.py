"""The sales that the pace is tested with. Tests run each with several seeds; the plots in the docs show one."""

from pace_model import Scenario

STEADY = Scenario(
    "steady", "No bottleneck", stock=100_000, line=60_000, seconds=120, is_lasting=True, joining_per_second=50
)
NO_SHOWS = Scenario("no-shows", "90 % do not show up", stock=2_000, line=200_000, seconds=900, shows=0.1)
NO_BUYERS = Scenario(
    "no-buyers", "90 % show up but do not buy", stock=500, line=60_000, seconds=1_800, buys=0.1, pass_s=60
)
SLOW_PAYMENTS = Scenario(
    "slow-payments",
    "Payments are limited to 60 per second",
    stock=20_000,
    line=60_000,
    seconds=1_200,
    payments_per_second=60,
)
STALL = Scenario("stall", "The gate stalls for 10 s", stock=8_000, line=40_000, seconds=900, stall_s=(20, 30))
EAGER = Scenario(
    "eager", "Everybody joins in the first six seconds", stock=8_000, line=40_000, seconds=900, joining_until_s=6
)
SURGE = Scenario(
    "surge",
    "The target is ten times what the gate can do",
    stock=20_000,
    line=90_000,
    seconds=1_200,
    target=1_000,
    gate_per_second=100,
)
RETURNS = Scenario(
    "returns",
    "60 % of payments fail after a minute",
    stock=1_000,
    line=30_000,
    seconds=2_400,
    payment_s=60,
    declines=0.6,
)
RESTOCK = Scenario(
    "restock", "Sold out, then 500 more at 120 s", stock=500, line=20_000, seconds=600, restock=(120, 500)
)
TINY = Scenario("tiny", "10 units, a queue of 50,000, half show up", stock=10, line=50_000, seconds=900, shows=0.5)
HUGE = Scenario("huge", "More units than buyers", stock=100_000, line=15_000, seconds=240, is_lasting=True)
PAIRS = Scenario("pairs", "One to four units each", stock=3_001, line=30_000, seconds=900, units=(1, 2, 2, 4))

EVERY = [STEADY, NO_SHOWS, NO_BUYERS, SLOW_PAYMENTS, STALL, EAGER, SURGE, RETURNS, RESTOCK, TINY, HUGE, PAIRS]
