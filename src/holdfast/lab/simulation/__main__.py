"""`python -m holdfast.lab.simulation`: runs the page as its own process, which `holdfast demo` starts. It exits when
stdin closes, so that it does not outlive the demo."""

import argparse
import asyncio
import os
import sys

import uvloop

from holdfast.lab.simulation.rsgi import serve


async def _main(port: int, demo_url: str) -> None:
    ending, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), _read_to_end, ending, loop)
    await serve(port, demo_url, ending, lambda: print(f"http://127.0.0.1:{port}/simulation", flush=True))


def _read_to_end(ending: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
    if not os.read(sys.stdin.fileno(), 1024):
        loop.remove_reader(sys.stdin.fileno())
        ending.set()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The simulation page of `holdfast demo`.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--demo-url", default="")
    options = parser.parse_args()
    uvloop.run(_main(options.port, options.demo_url))
