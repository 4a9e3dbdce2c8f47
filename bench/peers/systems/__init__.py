"""One module for each system, named as it is on the command line, with a class `Adapter`."""
