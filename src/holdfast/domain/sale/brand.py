"""How a sale's hosted page looks like the shop's."""

from msgspec import Struct

# Below this, the pages' quiet text would have a contrast of less than 4.5:1 on it.
MIN_BACKGROUND_LUMINANCE = 0.72


class Brand(Struct, frozen=True, omit_defaults=True):
    # The shop's name, instead of ours.
    name: str | None = None
    logo_url: str | None = None
    # Colours as #rrggbb. The page darkens or lightens the accent where it would be hard to read.
    accent: str | None = None
    background: str | None = None
    # A line from the shop above the purchase.
    message: str | None = None


def brand_contradictions(brand: Brand | None) -> dict[str, str]:
    """Unreadable choices, by field."""
    if brand is None or brand.background is None or luminance(brand.background) >= MIN_BACKGROUND_LUMINANCE:
        return {}
    return {"brand.background": "must be a light colour: dark text stands on it, and dark mode has its own"}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it, of #rrggbb: 0 is black, 1 is white."""
    red, green, blue = (_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)
