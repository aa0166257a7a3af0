"""Faults for which a part of the servers, or a test build, is missing."""

from fault import NotBuilt, fault


@fault("29", "wrong certificate, no token, wrong role × every RPC", "denied (with TLS)", once=True,
       conditions="TLS and tokens")
def strangers_are_denied(_):
    raise NotBuilt("connections are neither encrypted nor authenticated")
