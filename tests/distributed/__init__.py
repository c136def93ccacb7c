"""The product on a Citus cluster: `CITUS=FOLDER make test-citus`. Without a cluster nothing of it is collected."""
