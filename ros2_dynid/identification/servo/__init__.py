# SPDX-License-Identifier: Apache-2.0

"""Position servos without torque: identified from commanded and measured positions by simulating the drives' loops."""
