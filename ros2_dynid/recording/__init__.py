"""Recordings in and out: rosbags, CSV and npz into arrays, checked; arrays into rosbags that survive a crash."""
