# SPDX-License-Identifier: Apache-2.0

"""Fleets: many robots and many recordings, mapped over the processes of a Dask cluster and reduced to one page.

In the order of the work: `fleet_file` (which robots), `recordings` (which files, and what their content is), `forking`
and `workers` (a cluster, or this process), `map_recording` (a recording is prepared), `store` (results of stages on
disk, by the hash of what they were made from), `reduce_robot` (recordings of a robot become its model, in its folder),
`trends` (friction over time), `kinds` (what robots of one kind share, and which stand out), `summary` (verdicts),
`page` (index.html), `run` (all of it, one run at a time in a folder).
"""
