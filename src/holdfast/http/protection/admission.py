"""The checks that every request passes: limits, places, shedding, and the timer for slow clients."""

from msgspec import Struct

from holdfast.http.protection.host_pressure import HostPressure
from holdfast.http.protection.limits import Limits
from holdfast.http.protection.places import Places
from holdfast.http.protection.shedding import Shedder
from holdfast.http.protection.slow_requests import SlowRequestReaper
from holdfast.runtime.client_address import ClientAddresses, parse_networks
from holdfast.settings import Settings


class AdmissionControl(Struct, frozen=True, eq=False):
    limits: Limits
    places: Places
    shedder: Shedder
    reaper: SlowRequestReaper
    addresses: ClientAddresses


def client_addresses(settings: Settings) -> ClientAddresses:
    shared = parse_networks(settings.shared_addresses)
    return ClientAddresses(settings.trusted_networks, limit_loopback=settings.limit_loopback, shared=shared)


def build_admission(settings: Settings) -> AdmissionControl:
    addresses = client_addresses(settings)
    shedder = Shedder(host=HostPressure(settings.shed_host_percent))
    return AdmissionControl(
        Limits(addresses, per_address=settings.rate_per_address, per_buyer=settings.rate_per_buyer),
        Places(addresses, settings.places_per_address),
        shedder,
        SlowRequestReaper(shedder.tend),
        addresses,
    )


def cell_admission(settings: Settings, shared: AdmissionControl) -> AdmissionControl:
    """For one of several applications in a process. The limits of callers are common to all; a cell that is slow fills
    up and sheds its own requests only."""
    shedder = Shedder(host=HostPressure(settings.shed_host_percent))
    return AdmissionControl(shared.limits, shared.places, shedder, SlowRequestReaper(shedder.tend), shared.addresses)
