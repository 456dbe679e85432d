"""Turns a function that describes a call into a method of a client, with the same parameters."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, get_args

from holdfast.client.call import Call
from holdfast.client.stream import StreamEvent

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Runner(Protocol):
    def run(self, call: Call[T]) -> T: ...
    def stream(self, call: Call[StreamEvent]) -> Iterator[StreamEvent]: ...


class AsyncRunner(Protocol):
    def run(self, call: Call[T]) -> Awaitable[T]: ...
    def stream(self, call: Call[StreamEvent]) -> AsyncIterator[StreamEvent]: ...


def method(build: Callable[P, Call[T]]) -> Callable[Concatenate[Runner, P], T]:
    def run(client: Runner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client.run(build(*args, **kwargs))

    return _described(run, build, _answer_of(build))


def async_method(build: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncRunner, P], Awaitable[T]]:
    async def run(client: AsyncRunner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client.run(build(*args, **kwargs))

    return _described(run, build, _answer_of(build))


def pages(build: Callable[P, Call[Any]], item: type[T], cursor: str) -> Callable[Concatenate[Runner, P], Iterator[T]]:
    """All items, page by page. `cursor` is the field of the last item from which the next page continues."""

    def each(client: Runner, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        after = dict(kwargs)
        while True:
            page = client.run(_next_page(build, args, after))
            yield from page.data
            if not page.has_more or not page.data:
                return
            after["starting_after"] = getattr(page.data[-1], cursor)

    return _described(each, build, Iterator[item])  # type: ignore[valid-type]


def async_pages(
    build: Callable[P, Call[Any]], item: type[T], cursor: str
) -> Callable[Concatenate[AsyncRunner, P], AsyncIterator[T]]:
    async def each(client: AsyncRunner, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        after = dict(kwargs)
        while True:
            page = await client.run(_next_page(build, args, after))
            for one in page.data:
                yield one
            if not page.has_more or not page.data:
                return
            after["starting_after"] = getattr(page.data[-1], cursor)

    return _described(each, build, AsyncIterator[item])  # type: ignore[valid-type]


def stream(build: Callable[P, Call[StreamEvent]]) -> Callable[Concatenate[Runner, P], Iterator[StreamEvent]]:
    def events(client: Runner, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[StreamEvent]:
        return client.stream(build(*args, **kwargs))

    return _described(events, build, Iterator[StreamEvent])


def async_stream(
    build: Callable[P, Call[StreamEvent]],
) -> Callable[Concatenate[AsyncRunner, P], AsyncIterator[StreamEvent]]:
    def events(client: AsyncRunner, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[StreamEvent]:
        return client.stream(build(*args, **kwargs))

    return _described(events, build, AsyncIterator[StreamEvent])


def _next_page(build: Callable[..., Call[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[Any]:
    return build(*args, **kwargs)


def _answer_of(build: Callable[..., Call[Any]]) -> Any:
    """The `T` of the `Call[T]` that it returns."""
    [answer] = get_args(inspect.signature(build).return_annotation)
    return answer


def _described(made: F, build: Callable[..., Any], result: Any) -> F:
    """For `help()`: the client, then the parameters of the call, and the return type of the method."""
    update_wrapper(made, build)
    given = inspect.signature(build)
    client = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [client, *given.parameters.values()]
    made.__signature__ = given.replace(parameters=parameters, return_annotation=result)  # type: ignore[attr-defined]
    made.__annotations__ = build.__annotations__ | {"return": result}
    return made
