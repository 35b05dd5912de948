"""The fixture ``wirefault``: the lab's addresses for one test, and the answer of its agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from wirefault.core.errors import InputError, nearest
from wirefault.runner.in_process import BlockSubject, InProcessLab
from wirefault.settings.configuration import Configuration
from wirefault.subjects.surroundings import link_address


class Wirefault:
    """The lab of this process, for one test."""

    def __init__(self, lab: InProcessLab, configuration: Configuration, seed: int, key: str) -> None:
        self._lab = lab
        self._configuration = configuration
        self._episode: BlockSubject | None = None
        self.seed = seed
        """The seed of every draw."""
        self.key = key
        """The key of the test's episode."""

    @property
    def proxy(self) -> str | None:
        """The URL of the lab's proxy, for other programs; None without interception."""
        return self.variables.get("HTTPS_PROXY")

    @property
    def ca_bundle(self) -> str | None:
        """The file with the certificates to trust, for other programs; None without interception."""
        return self.variables.get("SSL_CERT_FILE")

    @property
    def variables(self) -> Mapping[str, str | None]:
        """The environment variables that lead other programs to the lab; None removes one."""
        return self._lab.tap.variables

    def url(self, link: str) -> str:
        """The address of a link of the wiring, behind its faults. Raises ``InputError``."""
        topology = self._lab.topology
        names = topology.links.names
        if link not in names:
            hint = nearest(link, names) if names else ": name links in a file for --wirefault-wiring"
            raise InputError(f"unknown link {link!r}{hint}")
        return link_address(topology.links[link], topology)

    @property
    def run_id(self) -> str:
        """The run of the test's episode, for ``wirefault show``; empty outside of it."""
        return self._episode.run_id if self._episode else ""

    def answer(self, value: object) -> None:
        """Record the agent's answer, which findings about answers read. Raises ``InputError``."""
        if self._episode is None:
            raise InputError("answer: the test has no episode: mark it with @pytest.mark.wirefault")
        self._episode.answer = value

    @contextmanager
    def in_episode(self, episode: BlockSubject) -> Iterator[None]:
        """Connect the fixture with the test's episode within the block."""
        self._episode = episode
        try:
            yield
        finally:
            self._episode = None
