# SPDX-License-Identifier: Apache-2.0

"""What the nodes share: lifecycle, parameters, messages, threads, clients."""
