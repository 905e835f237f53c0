"""The patterns of texts in a spec, and in words what each of them takes: nobody reads a regular expression."""

from __future__ import annotations

# As in `pkg/api/validate/content` of k8s.io/apimachinery, in fewer letters, as CRDs repeat them. No backslash: rules
# in CEL quote some of them. A subdomain (RFC 1123) is letters and digits, with dashes or one dot between.
_SUBDOMAIN = "[a-z0-9]+((-+|[.])[a-z0-9]+)*"
_QUALIFIED = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
DNS_LABEL = "^[a-z0-9]+(-+[a-z0-9]+)*$"
DNS_SUBDOMAIN = f"^{_SUBDOMAIN}$"
LABEL_KEY = f"^({_SUBDOMAIN}/)?{_QUALIFIED}$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
NO_SPACE = r"^[^\s]+$"
NO_OPTION = r"^[^-\s][^\s]*$"  # for what stands alone in a command, where a program takes -x for an option
NO_SPACE_OR_NOTHING = r"^[^\s]*$"
KEY_NAME = r"^[.]?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$"  # a file of a volume too: neither `.` nor what begins with `..`
ADAPTER = r"^[._a-zA-Z0-9][-._a-zA-Z0-9]*$"
OBJECT_STORE = r"^(s3|gs|az|oss)://[^\s]+$"
VARIABLE = r"^([-_a-zA-Z]|[.][-_a-zA-Z0-9])[-._a-zA-Z0-9]*$"
EXTENDED_RESOURCE = f"^{_SUBDOMAIN}/{_QUALIFIED}$"
RELEASE = r"^v?[0-9][-+.0-9A-Za-z]*$"
ACCELERATOR = r"^[A-Za-z0-9][-.A-Za-z0-9]*$"
HOST_NAME = f"^([*][.])?{_SUBDOMAIN}$"
API_GROUP = f"^({_SUBDOMAIN})?$"
API_KIND = "^[a-zA-Z](-*[a-zA-Z0-9])*$"

_KUBERNETES_NAME = "must be a name as Kubernetes has them (lower case letters, digits, - inside)"
IN_WORDS = {
    DNS_LABEL: _KUBERNETES_NAME,
    DNS_SUBDOMAIN: "must be a name as Kubernetes has them (lower case letters, digits, - and . inside)",
    LABEL_KEY: "must be the key of a label such as app or example.com/team (63 characters at most behind a /)",
    API_GROUP: "must be the name of an API group such as gateway.networking.k8s.io, or empty",
    API_KIND: "must be the name of a kind such as Gateway",
    LABEL_VALUE: "must be the value of a label (letters, digits, and - _ . inside)",
    NO_SPACE: "must have no spaces",
    NO_OPTION: "must have no spaces and must not begin with -",
    NO_SPACE_OR_NOTHING: "must have no spaces",
    KEY_NAME: "must be of letters, digits, - _ and ., and must not begin with ..",
    ADAPTER: "must be of letters, digits, - _ and ., and must not begin with -",
    OBJECT_STORE: "must begin with s3://, gs://, az:// or oss:// and have no spaces",
    VARIABLE: "must be the name of an environment variable such as HF_HOME",
    EXTENDED_RESOURCE: "must be the name of an extended resource such as rdma/hca_shared_devices",
    RELEASE: "must be a release such as 0.32.0 (a tag such as latest does not say which one)",
    ACCELERATOR: "must be the name of one accelerator such as H200",
    HOST_NAME: "must be a host name such as chat.example.com or *.example.com",
}
