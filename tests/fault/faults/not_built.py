"""Faults whose servers, or test builds, are not there yet."""

from fault import NotBuilt, fault


@fault("29", "wrong certificate, no token, wrong role × every RPC", "denied (with TLS)", once=True,
       conditions="TLS and tokens")
def strangers_are_denied(_):
    raise NotBuilt("connections are neither encrypted nor authenticated")


@fault("32", "older worker with newer dispatcher", "E B, or refused", once=True,
       conditions="binaries of the version before")
def versions_differ(_):
    raise NotBuilt("there is one version so far")
