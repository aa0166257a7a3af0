"""Schemas of the custom resources in deploy/kubernetes: cert-manager's and KEDA's.

They have the fields that deploy/kubernetes uses, as the documentation of both projects describes
them, and refuse all others. They are no copy of the projects' own schemas.
"""


def _object(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required),
            "additionalProperties": False}


_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": _TEXT, "minItems": 1}
_COUNT = {"type": "integer", "minimum": 0}
_DURATION = {"type": "string", "pattern": r"^(\d+h)?(\d+m)?(\d+s)?$", "minLength": 2}
_POLICIES = {"type": "array", "minItems": 1, "items": _object(
    ("type", "value", "periodSeconds"), type={"enum": ["Percent", "Pods"]},
    value={"type": "integer", "minimum": 1}, periodSeconds={"type": "integer", "minimum": 1})}
_RULES = _object(stabilizationWindowSeconds=_COUNT, policies=_POLICIES)


def _resource(version, kind, **spec):
    required = spec.pop("required", ())
    metadata = _object(("name",), name=_TEXT, namespace=_TEXT, labels={"type": "object"})
    return _object(("apiVersion", "kind", "metadata", "spec"), apiVersion={"const": version},
                   kind={"const": kind}, metadata=metadata, spec=_object(required, **spec))


SCHEMAS = {
    "Issuer": {**_resource("cert-manager.io/v1", "Issuer", selfSigned=_object(),
                           ca=_object(("secretName",), secretName=_TEXT))},
    "Certificate": _resource(
        "cert-manager.io/v1", "Certificate", required=("secretName", "issuerRef"),
        isCA={"type": "boolean"}, commonName={**_TEXT, "maxLength": 64}, dnsNames=_TEXTS,
        usages={"type": "array", "items": {"enum": [
            "digital signature", "key encipherment", "server auth", "client auth", "cert sign"]}},
        secretName=_TEXT, duration=_DURATION, renewBefore=_DURATION,
        privateKey=_object(("algorithm",), algorithm={"enum": ["RSA", "ECDSA", "Ed25519"]},
                           size={"enum": [256, 384, 521, 2048, 4096]},
                           rotationPolicy={"enum": ["Never", "Always"]}),
        issuerRef=_object(("name",), name=_TEXT, kind={"enum": ["Issuer", "ClusterIssuer"]})),
    "ScaledObject": _resource(
        "keda.sh/v1alpha1", "ScaledObject", required=("scaleTargetRef", "triggers"),
        scaleTargetRef=_object(("name",), name=_TEXT), minReplicaCount=_COUNT,
        maxReplicaCount=_COUNT, pollingInterval=_COUNT, cooldownPeriod=_COUNT,
        triggers={"type": "array", "minItems": 1, "items": _object(
            ("type", "metadata"), type={"const": "prometheus"}, metadata=_object(
                ("serverAddress", "query", "threshold"), serverAddress=_TEXT, query=_TEXT,
                threshold=_TEXT, ignoreNullValues={"enum": ["true", "false"]}))},
        advanced=_object(horizontalPodAutoscalerConfig=_object(
            behavior=_object(scaleUp=_RULES, scaleDown=_RULES)))),
}
