"""What the nodes have in common: JSON-RPC 2.0, and HTTP on loopback to speak it over."""
