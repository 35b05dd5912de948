"""``GET /effects``: the side effects of a world, as the judge sees them."""

from __future__ import annotations

from dataclasses import asdict

from flask import Blueprint, Response, jsonify, request

from flask_tools.inputs import MAX_WORLD_LENGTH, query, required_text, world_of_request
from flask_tools.store import Service
from wirefault.core.worlds import read_effects


def blueprint(service: Service) -> Blueprint:
    """Serves the side effects of all services, since they share one file."""
    routes = Blueprint("effects", __name__)

    @routes.get("/effects")
    def effects_of_world() -> Response:
        named = query(request, "world")
        world = required_text(named, "world", MAX_WORLD_LENGTH) if named else world_of_request(request)
        effects = [asdict(effect) for effect in read_effects(service.store.path, world)]
        return jsonify({"world": world, "effects": effects})

    return routes
