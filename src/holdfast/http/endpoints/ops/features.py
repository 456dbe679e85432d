"""Which features are on and off now; public, and answered from memory."""

from holdfast.bootstrap.services import Services
from holdfast.http.contract.message import JSON, Answer, Request, encode
from holdfast.http.contract.schemas.operate import FeatureOut, FeaturesOut
from holdfast.http.protection.shedding import Feature, Shedder

# As fresh as the heartbeats it is based on.
_CACHE = ("cache-control", "public, max-age=2, stale-while-revalidate=5")
CAPABILITIES = ("selling", "settling", "joining")


class FeaturesEndpoint:
    def __init__(self, services: Services, shedder: Shedder) -> None:
        self._services, self._shedder = services, shedder

    async def features(self, _request: Request) -> Answer:
        checks = self._services.checks
        found = {name: FeatureOut(checks[name].ok, checks[name].reason) for name in CAPABILITIES}
        for feature in Feature:
            why = self._shedder.why_off(feature)
            found[feature.value] = FeatureOut(why is None, why)
        if self._services.lag_guard.is_shedding:
            for name in ("selling", "joining"):
                found[name] = FeatureOut(False, "lag")
        off = [name for name, feature in found.items() if not feature.enabled]
        return Answer(200, [JSON, _CACHE], encode(FeaturesOut(found, off)))
