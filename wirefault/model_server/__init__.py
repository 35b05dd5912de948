"""The scripted model: a server that answers chat completions from playbooks, for the self-test subject."""
