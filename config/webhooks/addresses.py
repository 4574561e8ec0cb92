"""Where webhooks may be sent: by HTTPS, to public addresses and to private ones that settings allow.

Without these limits, anyone who may create a webhook could reach internal services through this server.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from config.errors import Detail, DetailCode
from config.monitoring.addresses import Address, parse_address

URL_LENGTH = 2000
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")
"""The addresses of hosts on the Internet. Others are translations and site-local addresses, for example."""


class Refused(Exception):
    """An address that webhooks may not be sent to, with the reason."""


def check_url(url: str) -> list[Detail]:
    """Return what is wrong with the URL of a webhook. Names are only resolved when something is sent."""
    try:
        parts = split(url)
        if literal := parse_address(host_of(parts)):
            _require_allowed(literal)
    except Refused as refusal:
        return [Detail("url", DetailCode.INVALID_VALUE, str(refusal))]
    return []


def split(url: str) -> SplitResult:
    """Return the parts of a URL. Raises Refused unless it is an absolute URL that may be used."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused("Must be an address such as https://hooks.example.com/halyard.") from None
    if len(url) > URL_LENGTH:
        raise Refused(f"Must be at most {URL_LENGTH:,} characters.")
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if not is_plain or parts.scheme not in _DEFAULT_PORTS or not parts.hostname or port == 0:
        raise Refused("Must be an address such as https://hooks.example.com/halyard.")
    if parts.scheme == "http" and not settings.WEBHOOK_ALLOW_HTTP:
        raise Refused("Must begin with https://, unless the setting WEBHOOK_ALLOW_HTTP is on.")
    if "@" in parts.netloc or parts.fragment:
        raise Refused("Must have no user name, no password and no fragment; receivers check the signature instead.")
    return parts


def host_of(parts: SplitResult) -> str:
    return parts.hostname or ""


def port_of(parts: SplitResult) -> int:
    return parts.port or _DEFAULT_PORTS[parts.scheme]


def resolve(host: str, port: int) -> str:
    """Return the address to connect to. Raises Refused if none is allowed, or OSError if the name has none."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    refusal = Refused(f"{host} has no address.")
    for *_, (address, *_) in entries:
        try:
            _require_allowed(ipaddress.ip_address(str(address)))
        except Refused as error:
            refusal = error
        else:
            return str(address)
    raise refusal


def _require_allowed(address: Address) -> None:
    """Raise Refused unless an address is public, or in a network that settings allow."""
    target = _unwrapped(address)
    is_unicast = target in _PUBLIC_IPV6 if target.version == 6 else not target.is_multicast
    if target.is_global and is_unicast:
        return
    if any(target in network for network in settings.WEBHOOK_PRIVATE_NETWORKS):
        return
    raise Refused(f"{target} is a private address; the setting WEBHOOK_PRIVATE_NETWORKS can allow its network.")


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address in an IPv6 address, if there is one."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
