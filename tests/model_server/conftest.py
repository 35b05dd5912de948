import pytest

from tests.model_server.exchange import serving
from wirefault.model_server.decide import Persona


@pytest.fixture(scope="module")
def url():
    with serving(persona=Persona.STUBBORN) as url:
        yield url
