"""What the nodes share: lifecycle, parameters, messages, threads, clients."""
