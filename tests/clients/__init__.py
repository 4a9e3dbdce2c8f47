"""Real clients, installed from npm: `make clients` runs these tests."""
