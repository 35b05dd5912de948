"""The front: takes a subject's connections, however they were caught, and leads each to where it belongs."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass

from windtunnel.core.sockets import Address, is_loopback
from windtunnel.gateway.http1.heads import BadHead
from windtunnel.gateway.intercept.arrival import Arrival
from windtunnel.gateway.intercept.egress import NoWayOut, dial, dial_through, read_first_request
from windtunnel.gateway.intercept.first_bytes import Spoken, server_name
from windtunnel.gateway.intercept.front_history import FrontHistory
from windtunnel.gateway.intercept.lane_state import AttemptInProgress, LaneState
from windtunnel.gateway.intercept.policy import Action, Policy
from windtunnel.gateway.intercept.proxy_requests import Asked, ProxyRequest, RequestRewriter, refusal
from windtunnel.gateway.intercept.routes import NoLink, Route, Routes, TooManyLinks
from windtunnel.gateway.intercept.splice import Carried, Splice
from windtunnel.history.events import ConnectionEnded
