# SPDX-License-Identifier: Apache-2.0
#
# The package in a ROS 2 image:  docker build --build-arg ROS_DISTRO=jazzy -t ros2_dynid .
# The demo in it:                docker run --rm ros2_dynid
# ROS_DISTRO is jazzy, kilted, lyrical or rolling; the images of ROS are for x86_64 and aarch64.

ARG ROS_DISTRO=jazzy
FROM ros:${ROS_DISTRO}-ros-base
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
ENV DEBIAN_FRONTEND=noninteractive
WORKDIR /ws

# What rosdep knows, then what only pip has; the manifests alone first, so that a change of the code repeats neither.
COPY package.xml src/ros2_dynid/
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ cmake make python3-dev python3-venv \
    && rosdep update --rosdistro "$ROS_DISTRO" \
    && rosdep install --from-paths src --ignore-src -y --rosdistro "$ROS_DISTRO" \
    && rm -rf /var/lib/apt/lists/*
COPY . src/ros2_dynid
RUN python3 -m venv --system-site-packages venv \
    && venv/bin/pip install --no-cache-dir "./src/ros2_dynid[all]" \
    && venv/bin/pip uninstall -y ros2_dynid

RUN . "/opt/ros/$ROS_DISTRO/setup.bash" && . venv/bin/activate \
    && colcon build --packages-select ros2_dynid --cmake-args "-DPython3_EXECUTABLE=$(command -v python3)" \
    && sed -i '$i . /ws/venv/bin/activate\n. /ws/install/setup.bash' /ros_entrypoint.sh

CMD ["ros2", "launch", "ros2_dynid", "demo.launch.py"]
