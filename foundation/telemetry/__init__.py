"""What a process tells its operator: log lines, requests, errors, traces. Never a secret."""
