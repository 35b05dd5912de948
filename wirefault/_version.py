"""The version of Wirefault: packaging, the command line and recorded runs all read it from here."""

__version__ = "0.3.0.dev0"
