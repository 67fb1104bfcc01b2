"""LFS transfer: a batch says what is missing, each missing object is put at its own address."""

import hashlib
from typing import Any

from starlette.responses import FileResponse, Response

from tests.hub.calls import Call, Routes, answer
from tests.hub.repositories import HubError

routes = Routes()


def tell_batch(hub: Any, call: Call) -> Response:
    repository = hub.repository(call)
    repository.check_write(call.user, proposal=True)
    request = call.json()
    if request["operation"] != "upload":
        raise HubError(400, "files are downloaded through resolve")
    # Clients before 2 offer Xet here; later ones use it without a question.
    if "xet" in request["transfers"]:
        return answer({"transfer": "xet", "objects": request["objects"]})
    objects = []
    for wanted in request["objects"]:
        told = {"oid": wanted["oid"], "size": wanted["size"]}
        if wanted["oid"] not in hub.repositories.objects:
            told["actions"] = {
                "upload": {"href": hub.storage_url(f"objects/{wanted['oid']}")},
                "verify": {"href": f"{call.origin}{call.path.removesuffix('batch')}verify"},
            }
        objects.append(told)
    return answer({"transfer": "basic", "objects": objects})


def verify(hub: Any, call: Call) -> Response:
    hub.repository(call).check_write(call.user, proposal=True)
    if call.json()["oid"] not in hub.repositories.objects:
        raise HubError(404, "the object was not uploaded")
    return answer({})


for prefix in ("", "/{kind}"):
    for action, handler in (("batch", tell_batch), ("verify", verify)):
        pattern = prefix + "/{namespace}/{name}.git/info/lfs/objects/" + action
        routes.add("POST", pattern)(handler)


@routes.add("PUT", "/storage/objects/{sha256}", upload=True)
def take_object(hub: Any, call: Call) -> Response:
    hub.check_signature(call)
    sha256 = hashlib.sha256(call.body).hexdigest()
    if sha256 != call.names["sha256"]:
        raise HubError(400, f"the object has the SHA-256 {sha256}")
    hub.repositories.objects.add(call.body)
    return Response(status_code=200)


@routes.add("GET", "/storage/objects/{sha256}")
def give_object(hub: Any, call: Call) -> Response:
    hub.check_signature(call)
    if call.names["sha256"] not in hub.repositories.objects:
        raise HubError(404, "no such object")
    return FileResponse(hub.repositories.objects.path(call.names["sha256"]))
