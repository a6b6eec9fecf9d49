# SPDX-License-Identifier: Apache-2.0

"""Fleets: many robots and many recordings, mapped over the processes of a Dask cluster and reduced to one page.

In the order of the work: `fleet_file` (which robots), `recordings` (which files, and what their content is), `lock`
(one run at a time), `forking` and `workers` (a cluster, or this process), `map_recording` (a recording is prepared),
`store` (results of stages on disk, by the hash of what they were made from: `fingerprint`), `reduce_robot` (recordings
of a robot become its model), `trends` (friction over time), `robot_folder` (a robot's files), `kinds` (what robots of
one kind share, and which stand out), `summary` (verdicts), `page` (index.html), `run` (all of it).
"""
