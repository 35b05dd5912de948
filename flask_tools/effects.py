"""``GET /effects``: the side effects of a world, as the judge sees them."""

from __future__ import annotations

from dataclasses import asdict

from flask import Blueprint, Response, jsonify, request

from flask_tools.inputs import query
from flask_tools.service import Service
from flask_tools.worlds import world_asked_for
from windtunnel.core.worlds import read_effects


def blueprint(service: Service) -> Blueprint:
    """Serves the side effects of all services, since they share one file."""
    routes = Blueprint("effects", __name__)

    @routes.get("/effects")
    def effects_of_world() -> Response:
        world = world_asked_for(request, query(request, "world"))
        effects = [asdict(effect) for effect in read_effects(service.store.path, world)]
        return jsonify({"world": world, "effects": effects})

    return routes
