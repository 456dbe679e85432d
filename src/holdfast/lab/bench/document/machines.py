"""The machine, date and versions of a measurement."""

from holdfast.lab.bench.measure.results import Bench, Measured

# Display names, in order.
_VERSIONS = {
    "holdfast": "Holdfast",
    "python": "Python",
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "valkey": "Valkey",
    "granian": "granian",
    "uvloop": "uvloop",
    "sqlalchemy": "SQLAlchemy",
    "asyncpg": "asyncpg",
    "redis": "redis-py",
    "fastapi": "FastAPI",
    "uvicorn": "uvicorn",
    "go_peer": "the Go peer",
}


def machine_words(measured: Measured) -> str:
    """One machine, or all of them if parts were measured on several machines."""
    machines = dict.fromkeys(_machine(bench) for bench in measured.benches)
    return " Other parts: ".join(machines)


def _machine(bench: Bench) -> str:
    facts = bench.machine
    return f"{facts.get('cores')} cores, {facts.get('cpu')}, {facts.get('platform')}."


def fsync_words(measured: Measured) -> str:
    seen = sorted(float(bench.machine["fsync_ms"]) for bench in measured.benches if "fsync_ms" in bench.machine)
    return f"{seen[0]:g} to {seen[-1]:g} ms" if seen else "not measured"


def version_words(measured: Measured) -> str:
    parts = []
    for name, shown in _VERSIONS.items():
        seen = dict.fromkeys(str(bench.machine[name]) for bench in measured.benches if bench.machine.get(name))
        if seen:
            parts.append(f"{shown} {' and '.join(seen)}")
    drivers = dict.fromkeys(str(bench.machine["driver"]) for bench in measured.benches if bench.machine.get("driver"))
    return ", ".join([*parts, *(f"driven by {driver}" for driver in drivers)])


def date_words(measured: Measured) -> str:
    days = sorted({bench.date[:10] for bench in measured.benches})
    if len(days) < 2:
        return "".join(days)
    older = [
        f"{bench.bench} on {bench.engine} {bench.date[:10]}" for bench in measured.benches if bench.date[:10] < days[-1]
    ]
    return f"{days[-1]}; earlier: {', '.join(older)}"
