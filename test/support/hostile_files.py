# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501  files are read best as one line each

"""Hostile files of less than 1 kB for every format that commands read, and a trial of each with limits.

python test/support/hostile_files.py [COUNT] [SEED]   tries COUNT mutations of them and of good files as well.
"""

from __future__ import annotations

import bz2
import io
import os
import random
import resource
import shutil
import signal
import sqlite3
import struct
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from ros2_dynid import cli
from ros2_dynid.recording.bag import mcap_file as mcap
from ros2_dynid.recording.bag import rosbag1_file, sqlite_file, writer  # noqa: F401  loaded once for all children
from ros2_dynid.recording.bag.storage import compress_zstd
from ros2_dynid.usecases import check  # noqa: F401

MOST_BYTES = 1000
MOST_SECONDS = 10.0
MOST_MEGABYTES = 500.0
JOINT_STATE = "sensor_msgs/msg/JointState"
CONTROLLER_STATE = "control_msgs/msg/JointTrajectoryControllerState"


@dataclass(frozen=True)
class Trial:
    """What a command did with a file: exit code (-9: ended by a limit), CPU seconds, largest memory [MB], its words.

    The memory is that of the largest of its processes.
    """

    name: str
    command: str
    code: int
    seconds: float
    megabytes: float
    words: str

    @property
    def problem(self) -> str:
        """What is wrong, or nothing ("")."""
        if self.code not in (0, 1, 2):
            return f"ended with {self.code}"
        if "Traceback" in self.words:
            return "a traceback"
        if self.seconds > MOST_SECONDS or self.megabytes > MOST_MEGABYTES:
            return f"{self.seconds:.1f} s, {self.megabytes:.0f} MB"
        return ""


# --- the files


def mcap_bag(
    definition: str, kind: str = JOINT_STATE, form: str = "ros2msg", data: bytes = b"", chunk: bool = False
) -> bytes:
    """Return an MCAP file with a channel of this type and a message."""
    described = struct.pack("<H", 1) + writer.text(kind) + writer.text(form) + writer.text(definition)
    records = writer.record(mcap.SCHEMA, described) + writer.channel(1, 1, "/joint_states", {})
    records += writer.record(mcap.MESSAGE, struct.pack("<HIQQ", 1, 0, 5, 5) + (data or b"\0\1\0\0" + bytes(60)))
    if chunk:
        packed = compress_zstd(records, 3)
        records = writer.record(
            mcap.CHUNK,
            struct.pack("<QQQI", 0, 9, len(records), 0) + writer.text("zstd") + struct.pack("<Q", len(packed)) + packed,
        )
    return writer.beginning("x") + records + writer.record(mcap.DATA_END, bytes(4)) + mcap.MAGIC


def rosbag1(definition: str, kind: str = "sensor_msgs/JointState", chunk: bytes | None = None) -> bytes:
    """Return a ROS 1 bag with one connection, or with a chunk packed by bz2."""

    def record(fields: dict[str, bytes], data: bytes) -> bytes:
        head = b"".join(struct.pack("<I", len(k) + 1 + len(v)) + k.encode() + b"=" + v for k, v in fields.items())
        return struct.pack("<I", len(head)) + head + struct.pack("<I", len(data)) + data

    topic = b"/joint_states"
    connection = {"topic": topic, "type": kind.encode(), "md5sum": b"0" * 32, "message_definition": definition.encode()}
    inside = b"".join(struct.pack("<I", len(k) + 1 + len(v)) + k.encode() + b"=" + v for k, v in connection.items())
    records = record({"op": b"\x07", "conn": bytes(4), "topic": topic}, inside)
    records += record({"op": b"\x02", "conn": bytes(4), "time": bytes(8)}, bytes(60))
    if chunk is not None:
        packed = bz2.compress(chunk)
        size = struct.pack("<I", len(chunk))
        records = record({"op": b"\x05", "compression": b"bz2", "size": size}, packed)
    return (
        b"#ROSBAG V2.0\n"
        + record({"op": b"\x03", "index_pos": bytes(8), "conn_count": bytes(4), "chunk_count": bytes(4)}, b"")
        + records
    )


def database(*statements: str) -> bytes:
    """Return an SQLite3 file of 512-byte pages that these statements make."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bag.db3"
        connection = sqlite3.connect(path)
        for statement in ("PRAGMA page_size=512", *statements):
            connection.execute(statement)
        connection.commit()
        connection.close()
        return path.read_bytes()


def archive(method: int, **arrays: bytes) -> bytes:
    """Return an npz file of these npy contents."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        for name, data in arrays.items():
            file.writestr(f"{name}.npy", data)
    return stream.getvalue()


def npy(dtype: str, shape: str, data: bytes = b"") -> bytes:
    """Return a npy file with this header, however untrue."""
    head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def nested_mat(kind: int) -> bytes:
    """Return a MATLAB file with a structure whose one field claims two thousand million values of a kind (mxCLASS)."""

    def element(number: int, data: bytes) -> bytes:
        return struct.pack("<II", number, len(data)) + data + bytes(-len(data) % 8)

    def matrix(number: int, width: int, name: bytes, content: bytes) -> bytes:
        flags, shape = struct.pack("<II", number, 0), struct.pack("<ii", 1, width)
        return element(14, element(6, flags) + element(5, shape) + element(1, name) + content)

    names = element(5, struct.pack("<i", 4)) + element(1, b"q\0\0\0")
    inside = matrix(kind, 2**31 - 1, b"", {CELL: b"", CHARACTERS: element(16, b""), STRUCTURE: names}[kind])
    head = b"MATLAB 5.0".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49)
    return head + matrix(STRUCTURE, 1, b"s", names + inside)


CELL, STRUCTURE, CHARACTERS = 1, 2, 4


def laughs(depth: int = 12, width: int = 9) -> str:
    """Return YAML whose aliases stand for width^depth values."""
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{k}: &a{k} [{','.join([f'*a{k - 1}'] * width)}]" for k in range(1, depth)]
    return "\n".join(lines)


def merges(width: int = 9) -> str:
    """Return YAML whose merge keys stand for width^9 values."""
    lines = [f"b{k}: &b{k} {{<<: [{','.join(['*a' if not k else f'*b{k - 1}'] * width)}]}}" for k in range(9)]
    return "\n".join(["a: &a {x: 1}", *lines])


TREE = "joints:\n- {name: a, parent: 0, type: revolute, alpha: 0, d: 0, theta: 0, r: 0, limits: {lower: -1, upper: 1, velocity: 1, acceleration: 1, effort: 1}}\n"
TYPES = "=" * 80 + "\nMSG: "


def fan(levels: int, width: int, leaf: str) -> str:
    """Return a message definition of width^levels fields."""
    parts = ["\n".join(f"p/T1 f{k}" for k in range(width))]
    for level in range(1, levels):
        kind = leaf if level == levels - 1 else f"p/T{level + 1}"
        parts.append(f"{TYPES}p/T{level}\n" + "\n".join(f"{kind} f{k}" for k in range(width)))
    return "\n".join(parts)


def hostile(only: Sequence[str] = ()) -> dict[str, bytes]:
    """Return the files by name, those alone whose names contain one of `only`; the suffix says what they are."""
    huge = "9" * 400
    replicas = (
        '<replicate count="300">' * 4 + '<body><joint axis="1 0 0"/><geom size=".1"/></body>' + "</replicate>" * 4
    )
    joint = '<joint name="j{0}" type="revolute"><parent link="l{0}"/><child link="l{1}"/></joint>'
    texts = {
        "laughs.yaml": laughs(),
        "merge.yaml": merges(),
        "columns.yaml": merges(),
        "driver.yaml": merges(),
        "plan_merge.yaml": merges(),
        "driver_deep.yaml": "[" * 900,
        "plan_deep.yaml": "# ros2_dynid trajectory: " + "[" * 900 + "\njoint_names: []\npoints:\n",
        "deep.yaml": "a: " + "[" * 900,
        "digits.yaml": f"gravity: [{huge}, {huge}, 0]\n",
        "sexagesimal.yaml": "a: " + ":".join(["59"] * 300),
        "base.yaml": "a: 0x" + "f" * 900,
        "parents.yaml": TREE + "- {name: b, parent: 999999999999, type: revolute}\n",
        "parameters.yaml": TREE + "parameters: {ZZ99999999999: 1, M1: 1e308, XX1: -1e308}\n",
        "tiny.yaml": TREE.replace("lower: -1, upper: 1", "lower: 0, upper: 1e-300"),
        "vast.yaml": TREE.replace("acceleration: 1", "acceleration: 1e300").replace("upper: 1", "upper: 1e300"),
        "device.yaml": "urdf: /proc/kmsg\n",
        "zero.yaml": "urdf: /dev/zero\n",
        "itself.yaml": "urdf: itself.yaml\n",
        "binary.yaml": "a: !!binary " + "A" * 900,
        "set.yaml": "!!set {" + ",".join(f"? {k}" for k in range(150)) + "}",
        "laughs.urdf": '<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "aaaaaaaaaa">' + "".join(f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(9)) + ']><robot name="&j;"/>',
        "deep.urdf": "<robot name='r'>" + "<a>" * 300,
        "chain.urdf": "<robot name='r'>" + "".join(f'<link name="l{k}"/>' for k in range(5)) + "".join(joint.format(k, k + 1) for k in range(4)) + "</robot>",
        "cycle.urdf": '<robot name="r"><link name="l0"/><link name="l1"/>' + joint.format(0, 1) + joint.format(1, 0) + "</robot>",
        "mesh.urdf": '<robot name="r"><link name="l0"/><link name="l1"><collision><geometry><mesh filename="/dev/zero" scale="1e300 1 1"/></geometry></collision></link>' + joint.format(0, 1) + "</robot>",
        "power.xacro": '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="${10**10**10}"/></robot>',
        "long.xacro": '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="${\'a\'*10**10}"/></robot>',
        "again.xacro": '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:macro name="m" params=""><xacro:m/><xacro:m/></xacro:macro><xacro:m/></robot>',
        "replicas.xml": f"<mujoco><worldbody><body><joint/><geom size='.1'/>{replicas}</body></worldbody></mujoco>",
        "itself.xml": '<mujoco><asset><model name="m" file="itself.xml"/></asset><worldbody><attach model="m" prefix="a"/></worldbody></mujoco>',
        "texture.xml": '<mujoco><asset><texture name="t" type="2d" builtin="flat" width="60000" height="60000"/></asset><worldbody/></mujoco>',
        "close.csv": "time,a.position,a.effort\n" + "".join(f"{k * 1e-300},{k % 2},1\n" for k in range(30)),
        "header.csv": "time," + ",".join(f"a{k}.position" for k in range(60)) + "\n" + "1e308,\n" * 20,
        "times.csv": "time,a.position\n0,0\n1e300,1\n2e300,0\n",
        "far.csv": "time,a.position,a.effort\n0,0,0\n1e-9,0,0\n" + "\n".join(f"{10**9 + k},1,1" for k in range(20)),
        "gap.csv": "time,a.position,a.effort\n" + "\n".join(f"{k * 1e-7},{k % 3},1" for k in range(30)) + "\n3000000,1,1\n",
        "quote.csv": 'time,a.position\n"' + "0" * 900,
        "fleet.yaml": "robots:\n" + "\n".join(f"- {{id: r{k}, robot: demo3, recordings: [x]}}" for k in range(18)),
        "model.yaml": "format: ros2_dynid model\nversion: 999999999999\nbase: " + laughs(6),
        "mission.yaml": "steps:\n- {do: wait, seconds: 1e300}\n" * 9,
        "plan.yaml": "format: ros2_dynid trajectory\nversion: 1\nkind: fourier\nduration: 1e300\nharmonics: 999999999\njoints: [waist, shoulder, elbow]\n",
    }  # fmt: skip
    files = {name: text.encode() for name, text in texts.items()}
    idl = "module sensor_msgs {{ module msg {{ {0} struct JointState {{ long x{1}; }}; }}; }};"
    made: dict[str, Callable[[], bytes]] = {
        "fan.mcap": lambda: mcap_bag(fan(5, 14, "p/E") + f"\n{TYPES}p/E\n", chunk=True, data=b"\0\1\0\0" + bytes(500_000)),
        "leaves.mcap": lambda: mcap_bag(fan(5, 14, "int8"), chunk=True, data=b"\0\1\0\0" + bytes(600_000)),
        "bytes.mcap": lambda: mcap_bag("p/E[] e\n" + TYPES + "p/E\nint8 x", chunk=True, data=b"\0\1\0\0" + struct.pack("<I", 20_000_000) + bytes(20_000_000)),
        "bound.mcap": lambda: mcap_bag("int8[99999999999] x\nstring<=99999999999 y"),
        "nothing.mcap": lambda: mcap_bag("p/E[99999999] e\n" + TYPES + "p/E\n"),
        "itself.mcap": lambda: mcap_bag("p/E e\n" + TYPES + "p/E\np/E e\np/E f\n"),
        "shift.mcap": lambda: mcap_bag(idl.format("const long A = 1 << 16000000000;", "[A]"), form="ros2idl"),
        "times.mcap": lambda: mcap_bag(idl.format("const long A = " + "*".join(["9999999999"] * 40) + ";", "[A]"), form="ros2idl"),
        "brackets.mcap": lambda: mcap_bag(idl.format("const long A = " + "(" * 200 + "1" + ")" * 200 + ";", ""), form="ros2idl"),
        "arrays.mcap": lambda: mcap_bag(idl.format("typedef long T[9999][9999][9999];", ""), form="ros2idl"),
        "text.mcap": lambda: mcap_bag("string x " + '"' + "\\" * 500),
        "zeros.mcap": lambda: mcap_bag("", chunk=True, data=bytes(20_000_000)),
        "messages.mcap": lambda: mcap_bag("", chunk=True),
        "nothing.bag": lambda: rosbag1("p/E[] e\n" + TYPES + "p/E\n"),
        "fan.bag": lambda: rosbag1(fan(5, 12, "p/E") + f"\n{TYPES}p/E\n"),
        "zeros.bag": lambda: rosbag1("", chunk=bytes(40_000_000)),
        "generated.db3": lambda: database(
            "CREATE TABLE topics(id,name,type,serialization_format)",
            "CREATE TABLE messages(topic_id,timestamp,data AS(hex(zeroblob(400000000))))",
            f"INSERT INTO topics VALUES(1,'/j','{JOINT_STATE}','cdr')",
            "INSERT INTO messages VALUES(1,1)",
        ),
        "name.db3": lambda: database(
            "CREATE TABLE topics(id,name AS(hex(zeroblob(400000000))),type,serialization_format)",
            "CREATE TABLE messages(topic_id,timestamp,data)",
            f"INSERT INTO topics VALUES(1,'{JOINT_STATE}','cdr')",
        ),
        "view.db3": lambda: database(
            "CREATE TABLE topics(id,name,type,serialization_format)",
            "CREATE VIEW messages AS WITH RECURSIVE c(x) AS(SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT 1 topic_id,x timestamp,zeroblob(99) data FROM c",
        ),
        "bytes.npz": lambda: archive(zipfile.ZIP_BZIP2, t=npy("|i1", "(40000000,)", bytes(40_000_000)), q=npy("|i1", "(40000000,)", bytes(40_000_000))),
        "shape.npz": lambda: archive(zipfile.ZIP_STORED, t=npy("<f8", "(99999999999,)"), q=npy("<f8", "(99999999999, 3)")),
        "strides.npz": lambda: archive(zipfile.ZIP_STORED, t=npy("<f8", "(0,)"), q=npy("<f8", "(0, 99999999999)")),
        "names.npz": lambda: archive(zipfile.ZIP_STORED, t=npy("<f8", "(1,)", bytes(8)), q=npy("<f8", "(1, 1)", bytes(8)), joint_names=npy("<U99999999", "(1,)")),
        "header.npz": lambda: archive(zipfile.ZIP_STORED, t=npy("(" * 300, "(1,)")),
        "cells.mat": lambda: nested_mat(CELL),
        "structures.mat": lambda: nested_mat(STRUCTURE),
        "characters.mat": lambda: nested_mat(CHARACTERS),
        "packed.db3.zstd": lambda: compress_zstd(bytes(20_000_000), 3),
    }  # fmt: skip
    files |= {name: make() for name, make in made.items() if not only or any(part in name for part in only)}
    files = {name: data for name, data in files.items() if not only or any(part in name for part in only)}
    return {name: data for name, data in files.items() if len(data) < MOST_BYTES or name in LARGER}


LARGER = {"generated.db3", "name.db3", "view.db3"}
"""SQLite's files are as large as their pages."""


# --- the trials


def commands_of(path: Path) -> Iterator[list[str]]:
    """Yield what a user may call with a file."""
    text, out = str(path), str(path.parent / "out")
    name = path.name
    if name == "metadata.yaml" or name.endswith((".mcap", ".bag", ".db3", ".zstd", ".npz", ".csv", ".mat")):
        where = str(path.parent) if name == "metadata.yaml" else text
        robot = path.parent / "one.yaml"
        robot.write_text(TREE)
        yield ["check", where, str(robot)]
        yield ["identify", str(robot), where, "-o", out]
        if name.endswith(("csv", "npz")):
            yield ["torque", str(robot), text, f"{out}.csv"]
        yield ["convert", where, f"{out}.npz", "--robot", str(robot)]
    elif name == "fleet.yaml":
        yield ["fleet", text, "-o", out, "--workers", "0"]
    elif name.startswith("columns"):
        (path.parent / "in.csv").write_text("time,a.position\n0,0\n1,1\n")
        yield ["convert", str(path.parent / "in.csv"), f"{out}.npz", "--columns", text]
    elif name.startswith("driver"):
        yield ["mdh", "demo3", "--robot-driver", text]
    elif name.startswith("plan"):
        yield ["preview", text, "demo3", "--save", f"{out}.html"]
    elif name == "model.yaml":
        yield ["torque", text, str(path.parent / "in.csv"), f"{out}.csv"]
        yield ["export", text, "--to", "runtime", "-o", out]
        yield ["report", str(path.parent)]
    else:
        yield ["mdh", text]
        yield ["base", text]
        yield ["excite", text, "-o", f"{out}.yaml", "--duration", "2"]
        yield ["export", text, "--to", "c", "-o", out]


def tried(name: str, data: bytes, folder: Path) -> Iterator[Trial]:
    """Write a file into a new folder and yield what each command does with it, in a child with limits."""
    case = folder / "case"
    for number in range(9):
        shutil.rmtree(case, ignore_errors=True)
        case.mkdir()
        path = case / name
        path.write_bytes(data)
        command = next((c for k, c in enumerate(commands_of(path)) if k == number), None)
        if command is None:
            return
        yield run_limited(name, command, folder)


def run_limited(name: str, command: list[str], folder: Path) -> Trial:
    """Run a command in a forked child with limits of time and memory."""
    output = folder / "output.txt"
    child = os.fork()
    if not child:
        sink = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(MOST_SECONDS) + 2, int(MOST_SECONDS) + 2))
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(150)
        code = 99
        try:
            code = cli.main(command)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 98
        except BaseException:
            import traceback

            traceback.print_exc()
        sys.stdout.flush()
        own = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
        Path(folder / "peak").write_text(str(max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)))
        os._exit(code)
    (folder / "peak").unlink(missing_ok=True)
    _, status, usage = os.wait4(child, 0)
    peak = folder / "peak"
    megabytes = int(peak.read_text()) / 1024 if peak.exists() else usage.ru_maxrss / 1024
    code = os.waitstatus_to_exitcode(status)
    words = output.read_text(errors="replace")[-2000:]
    return Trial(name, " ".join(command[:1]), code, usage.ru_utime + usage.ru_stime, megabytes, words)


def mutated(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return data with bytes flipped, cut out, repeated, or taken from another file; less than 1 kB of it."""
    text = bytearray(data[: MOST_BYTES - 1])
    for _ in range(rng.randint(1, 6)):
        if not text:
            break
        at, size = rng.randrange(len(text)), rng.randint(1, 12)
        match rng.randrange(6):
            case 0:
                text[at] = rng.randrange(256)
            case 1:
                del text[at : at + size]
            case 2:
                text[at:at] = text[at : at + size] * rng.randint(1, 9)
            case 3:
                start = rng.randrange(max(len(other), 1))
                text[at:at] = other[start : start + 4 * size]
            case 4:
                text[at : at + 4] = struct.pack("<I", rng.choice((0, 1, 255, 2**16, 2**31 - 1, 2**32 - 1)))
            case 5:
                text[at:at] = rng.choice(
                    (b"9" * 30, b"1e308", b"-", b"*", b"[", b"{", b"nan", b"0", b": ", b"&a ", b"\n")
                )
    return bytes(text[: MOST_BYTES - 1])


def main(count: int, seed: int, only: tuple[str, ...] = ()) -> int:
    """Try the hostile files, then `count` mutations; print what is wrong and the extremes."""
    rng, files = random.Random(seed), hostile(only)
    slowest, largest, wrong = 0.0, 0.0, 0
    names = list(files)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(len(names) + count):
            name = names[number] if number < len(names) else rng.choice(names)
            data = files[name]
            if number >= len(names):
                data = mutated(data, files[rng.choice(names)], rng)
            for trial in tried(name, data, Path(folder)):
                if number < len(names) or trial.problem:
                    print(
                        f"{trial.name:18} {trial.command:9} {trial.code:3} {trial.seconds:6.2f} s {trial.megabytes:6.0f} MB  {trial.problem}  {trial.words.strip()[-110:]!r}",
                        flush=True,
                    )
                if trial.problem:
                    wrong += 1
                    (Path("/tmp") / f"hostile_{wrong}_{name}").write_bytes(data)
                slowest, largest = max(slowest, trial.seconds), max(largest, trial.megabytes)
    print(f"slowest {slowest:.1f} s, largest {largest:.0f} MB, wrong {wrong}, seconds of CPU {time.process_time():.0f}")
    return wrong


if __name__ == "__main__":
    numbers, words = [int(text) for text in sys.argv[1:3]], sys.argv[3:]
    sys.exit(bool(main(*numbers[:2], only=tuple(words))))
