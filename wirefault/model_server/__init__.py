"""The scripted model: a server that answers chat completions by playbooks; the self-test subject's model."""
