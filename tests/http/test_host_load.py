"""How much of the CPU and the memory is in use, in control groups of either version and without one."""

from pathlib import Path

import pytest

from holdfast.http.protection.host_load import HostLoad

GIB = 1 << 30
MACHINE = {
    "proc/stat": "cpu  1000 0 0 9000 0 0 0 0 0 0\n",
    "proc/meminfo": "MemTotal: 4194304 kB\nMemFree: 100 kB\nMemAvailable: 3145728 kB\n",
}
VERSION_2 = MACHINE | {
    "proc/self/cgroup": "0::/system.slice/holdfast.service\n",
    "sys/fs/cgroup/system.slice/holdfast.service/cpu.max": "max 100000\n",
    "sys/fs/cgroup/system.slice/holdfast.service/memory.max": "max\n",
    "sys/fs/cgroup/system.slice/cpu.max": "50000 100000\n",
    "sys/fs/cgroup/system.slice/cpu.stat": "usage_usec 1000000\nuser_usec 1\n",
    "sys/fs/cgroup/system.slice/memory.max": f"{GIB}\n",
    "sys/fs/cgroup/system.slice/memory.current": f"{GIB}\n",
    "sys/fs/cgroup/system.slice/memory.stat": f"anon 1\ninactive_file {GIB // 4}\n",
}
VERSION_1 = MACHINE | {
    "proc/self/cgroup": "4:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpuacct/cpuacct.usage": "1000000000\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB // 2}\n",
    "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 0\n",
}


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_without_a_limit_the_machine_counts(tmp_path: Path) -> None:
    write(tmp_path, MACHINE)
    load = HostLoad(tmp_path)
    assert load.sample(10.0).cpu == 0.0
    write(tmp_path, {"proc/stat": "cpu  1050 0 0 9050 0 0 0 0 0 0\n"})
    assert 0 < load.sample(11.0).cpu < 1
    assert load.sample(12.0).memory == pytest.approx(0.25)


def test_a_limit_of_any_group_around_it_counts_and_cached_files_do_not(tmp_path: Path) -> None:
    write(tmp_path, VERSION_2)
    load = HostLoad(tmp_path)
    load.sample(10.0)
    write(tmp_path, {"sys/fs/cgroup/system.slice/cpu.stat": "usage_usec 1450000\n"})
    usage = load.sample(11.0)
    assert [usage.cpu, usage.memory] == pytest.approx([0.9, 0.75])
    assert usage.highest == usage.cpu


def test_version_1_is_read_too_where_a_container_sees_its_group_at_the_top(tmp_path: Path) -> None:
    write(tmp_path, VERSION_1)
    load = HostLoad(tmp_path)
    load.sample(10.0)
    write(tmp_path, {"sys/fs/cgroup/cpuacct/cpuacct.usage": "2000000000\n"})
    usage = load.sample(11.0)
    assert [usage.cpu, usage.memory] == pytest.approx([0.5, 0.5])


def test_where_nothing_can_be_read_nothing_is_in_use(tmp_path: Path) -> None:
    assert HostLoad(tmp_path).sample().highest == 0.0


def test_this_machine_has_some_of_both() -> None:
    load = HostLoad()
    load.sample(0.0)
    usage = load.sample(1000.0)
    assert 0 <= usage.cpu <= 1
    assert 0 < usage.memory < 1
