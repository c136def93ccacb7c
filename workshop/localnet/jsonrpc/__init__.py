"""JSON-RPC 2.0 over HTTP on loopback, which both nodes share."""
