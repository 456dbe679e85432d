"""Reads a provider's response within bounds: a slow, endless or compressed response must not use up our resources.

`limits` bounds the time of the whole call. The size is bounded here, and nothing is decompressed: responses are
requested without encoding, and an encoded one is refused.
"""

import aiohttp

# Far above any provider's response, and harmless even if every payment in progress gets one this large.
ANSWER_MAX_BYTES = 64 * 1024
PLAIN = {"Accept-Encoding": "identity"}


def limits(timeout_s: float) -> aiohttp.ClientTimeout:
    """Half of the time is enough to connect. A failure to connect must come first, because then nothing was sent."""
    return aiohttp.ClientTimeout(total=timeout_s, connect=timeout_s / 2)


def open_session(timeout_s: float, connector: aiohttp.TCPConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        timeout=limits(timeout_s),
        headers=PLAIN,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def read_answer(answer: aiohttp.ClientResponse) -> bytes:
    """The body, or `ClientPayloadError` if it is too large or encoded."""
    encoding = answer.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise aiohttp.ClientPayloadError(f"an answer encoded as {encoding[:40]!r} was not asked for")
    content = bytearray()
    async for chunk in answer.content.iter_any():
        content += chunk
        if len(content) > ANSWER_MAX_BYTES:
            raise aiohttp.ClientPayloadError(f"an answer of more than {ANSWER_MAX_BYTES} bytes")
    return bytes(content)
