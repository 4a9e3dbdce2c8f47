"""All that orgs have in one store, brought to another and compared there."""
