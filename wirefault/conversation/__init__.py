"""Talk to an agent that fails: the server of ``wirefault lab serve``, its failure modes and its sessions."""
