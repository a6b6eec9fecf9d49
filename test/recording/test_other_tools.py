# SPDX-License-Identifier: Apache-2.0

"""Our bags before other tools, and theirs before us: MCAP's own library, and what rosbag2's sources ask for."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest
import yaml
from mcap.reader import make_reader
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from mcap_ros2.decoder import DecoderFactory
from mcap_ros2.writer import Writer as Ros2Writer

from bagmaker import EPOCH, JOINT_STATE, ROS2, plain_messages, write_bag
from ros2_dynid.errors import MissingPackageError
from ros2_dynid.recording.bag.definitions import JOINT_STATE_DEFINITION
from ros2_dynid.recording.bag.writer import BagWriter, joint_state
from ros2_dynid.recording.read import load_samples

NAMES = ("shoulder", "elbow")
INFORMATION = {
    "version": int,
    "storage_identifier": str,
    "duration": dict,
    "starting_time": dict,
    "message_count": int,
    "topics_with_message_count": list,
    "compression_format": str,
    "compression_mode": str,
    "relative_file_paths": list,
    "files": list,
    "custom_data": dict,
    "ros_distro": str,
}
"""Keys that rosbag2_storage/yaml.hpp, convert<BagMetadata>::decode, asks for without a default in versions up to 8."""


def our_bag(path, count=2000, compression=""):
    with BagWriter(path, compression=compression) as writer:
        channel = writer.add_topic("/joint_states")
        latched = writer.add_topic("/robot_description", "std_msgs/msg/String", latched=True)
        writer.write(latched, b"\0\1\0\0\6\0\0\0hello\0", EPOCH)
        for k in range(count):
            stamp = EPOCH + k * 1_000_000
            writer.write(channel, joint_state(NAMES, stamp, [(k, 0.5), (1.0, -k), (2.0 * k, 0.0)]), stamp)
    return path


@pytest.mark.filterwarnings("ignore:start_time is deprecated")
@pytest.mark.parametrize("compression", ["", "zstd"])
def test_mcaps_own_library_reads_our_bags(tmp_path, compression):
    bag = our_bag(tmp_path / "bag", compression=compression)
    with (bag / "bag_0.mcap").open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()], validate_crcs=True)
        summary = reader.get_summary()
        assert reader.get_header().profile == "ros2"
        assert summary.statistics.message_count == 2001
        assert (summary.statistics.message_start_time, summary.statistics.message_end_time) == (
            EPOCH,
            EPOCH + 1_999_000_000,
        )
        found = list(reader.iter_decoded_messages(topics="/joint_states"))
        assert [message.log_time for _, _, message, _ in found] == [EPOCH + k * 1_000_000 for k in range(2000)]
        assert [message.sequence for _, _, message, _ in found] == list(range(2000))
        assert all(list(decoded.effort) == [2.0 * k, 0.0] for k, (_, _, _, decoded) in enumerate(found))
        late = reader.iter_messages(topics=["/joint_states"], start_time=EPOCH + 1_500_000_000)
        assert sum(1 for _ in late) == 500  # found by the index


def test_what_rosbag2_asks_of_a_bag(tmp_path):
    """Names: rosbag2_storage_mcap/src/mcap_storage.cpp and rosbag2_storage/include/rosbag2_storage/yaml.hpp."""
    bag = our_bag(tmp_path / "bag")
    file = yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    with (bag / "bag_0.mcap").open("rb") as stream:
        reader = make_reader(stream)
        summary = reader.get_summary()
        records = {record.name: record.metadata for record in reader.iter_metadata()}
    # get_metadata() decodes this text itself, without a key above it, and with the decoder of metadata.yaml
    embedded = yaml.safe_load(records["rosbag2"]["serialized_metadata"])
    assert embedded == file
    assert {key: type(value) for key, value in file.items()} == INFORMATION
    assert file["version"] == 8 and file["storage_identifier"] == "mcap"
    assert file["duration"] == {"nanoseconds": 1_999_000_000}
    assert file["starting_time"] == {"nanoseconds_since_epoch": EPOCH}
    assert file["files"][0].keys() == {"path", "starting_time", "duration", "message_count"}
    for item in file["topics_with_message_count"]:
        topic = item["topic_metadata"]
        assert list(topic) == ["name", "type", "serialization_format", "offered_qos_profiles", "type_description_hash"]
        # up to version 8 a text that holds YAML, with numbers for policies; the channel holds the same
        profiles = yaml.safe_load(topic["offered_qos_profiles"])
        assert [list(profile) for profile in profiles] == [
            ["history", "depth", "reliability", "durability", "deadline", "lifespan", "liveliness",
             "liveliness_lease_duration", "avoid_ros_namespace_conventions"]
        ]  # fmt: skip
        channel = next(c for c in summary.channels.values() if c.topic == topic["name"])
        assert channel.metadata["offered_qos_profiles"] == topic["offered_qos_profiles"]
        assert channel.metadata["topic_type_hash"] == topic["type_description_hash"] == ROS2.hash_rihs01(topic["type"])
        assert channel.message_encoding == topic["serialization_format"] == "cdr"
        schema = summary.schemas[channel.schema_id]
        assert (schema.name, schema.encoding) == (topic["type"], "ros2msg")
        assert summary.statistics.channel_message_counts[channel.id] == item["message_count"]
    assert summary.chunk_indexes and all(index.message_index_length for index in summary.chunk_indexes)


def test_a_bag_that_is_not_closed_yet_names_its_topics(tmp_path):
    """rosbag2 plays the topics that metadata.yaml names."""
    writer = BagWriter(tmp_path / "bag")
    writer.add_topic("/joint_states")
    file = yaml.safe_load((tmp_path / "bag/metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert [item["topic_metadata"]["name"] for item in file["topics_with_message_count"]] == ["/joint_states"]
    writer.close()


@pytest.mark.parametrize("compression", list(CompressionType))
@pytest.mark.parametrize("options", [{}, {"use_chunking": False}, {"index_types": 0, "use_statistics": False}])
def test_bags_of_mcaps_own_writer_with_messages_in_any_order(tmp_path, compression, options):
    if "index_types" in options:
        from mcap.writer import IndexType

        options = options | {"index_types": IndexType.NONE}
    messages, names, stamps, q, dq, tau = plain_messages(500)
    shuffled = [message for begin in range(0, 500, 25) for message in _shuffled(messages[begin : begin + 25], begin)]
    with (tmp_path / "a.mcap").open("wb") as stream:
        writer = McapWriter(stream, chunk_size=20_000, compression=compression, **options)
        writer.start("ros2", "test")
        schema = writer.register_schema(JOINT_STATE, "ros2msg", JOINT_STATE_DEFINITION.encode())
        channel = writer.register_channel("/joint_states", "cdr", schema, {"topic_type_hash": "RIHS01_00"})
        for _, stamp, message in shuffled:
            writer.add_message(channel, stamp, bytes(ROS2.serialize_cdr(message, JOINT_STATE)), stamp)
        writer.finish()
    samples = load_samples(tmp_path / "a.mcap")
    assert samples.joint_names == tuple(names)
    assert np.array_equal(samples.start_ns + np.round(samples.t * 1e9).astype(np.int64), stamps)
    assert np.array_equal(samples.q, q) and np.array_equal(samples.dq, dq) and np.array_equal(samples.tau, tau)


def _shuffled(items, seed):
    items = list(items)
    head, rest = (items[:1], items[1:]) if seed == 0 else ([], items)  # t counts from the first message
    random.Random(seed).shuffle(rest)
    return head + rest


def test_a_bag_of_mcaps_writer_for_ros_2(tmp_path):
    _, names, stamps, q, dq, tau = plain_messages(300)
    with (tmp_path / "a.mcap").open("wb") as stream:
        writer = Ros2Writer(stream)
        schema = writer.register_msgdef("sensor_msgs/JointState", JOINT_STATE_DEFINITION)
        for k, stamp in enumerate(stamps.tolist()):
            time = {"sec": stamp // 10**9, "nanosec": stamp % 10**9}
            content = {"header": {"stamp": time, "frame_id": "base"}, "name": names}
            content |= {"position": q[k].tolist(), "velocity": dq[k].tolist(), "effort": tau[k].tolist()}
            writer.write_message("/joint_states", schema, content, stamp, stamp)
        writer.finish()
    samples = load_samples(tmp_path / "a.mcap")
    assert np.array_equal(samples.q, q) and np.array_equal(samples.tau, tau) and samples.notes == ()


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8, 9])
@pytest.mark.parametrize("plugin", ["mcap", "sqlite3"])
def test_metadata_of_every_release(tmp_path, version, plugin):
    """Humble writes version 5, Iron 6 and 7, Jazzy 8 and 9, Kilted 9; each adds keys, and 9 spells out policies."""
    messages, _, _, q, _, _ = plain_messages(100)
    bag = write_bag(tmp_path / "bag", messages, plugin=plugin)
    content = yaml.safe_load((bag / "metadata.yaml").read_text())
    information = content["rosbag2_bagfile_information"]
    information["version"] = version
    for key, since in {"files": 5, "custom_data": 6, "ros_distro": 8}.items():
        if version < since:
            del information[key]
    topic = information["topics_with_message_count"][0]["topic_metadata"]
    if version < 7:
        del topic["type_description_hash"]
    policies = {"history": "keep_last", "depth": 10, "reliability": "reliable", "durability": "volatile"}
    topic["offered_qos_profiles"] = [policies] if version == 9 else "- history: 1\n  depth: 10"
    (bag / "metadata.yaml").write_text(yaml.safe_dump(content))
    samples = load_samples(bag)
    assert np.array_equal(samples.q, q) and samples.notes == ()


def test_joint_states_are_read_and_written_without_the_library_rosbags(tmp_path, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("rosbags")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "rosbags", None)
    with BagWriter(tmp_path / "run") as writer:
        channel = writer.add_topic("/joint_states")
        q = np.arange(20.0).reshape(10, 2)
        writer.write_joint_states(channel, NAMES, np.arange(10) * 10**8 + EPOCH, [q, None, q])
        with pytest.raises(MissingPackageError, match="pip install rosbags"):
            writer.add_topic("/wrench", "geometry_msgs/msg/WrenchStamped")
    np.testing.assert_array_equal(load_samples(tmp_path / "run").tau, q)
