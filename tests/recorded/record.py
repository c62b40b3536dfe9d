"""Ask a real vLLM or SGLang server every request of ``shapes`` and keep its answers for the tests.

``python -m tests.recorded.record vllm http://127.0.0.1:8131``; ``... sglang http://127.0.0.1:8211 0.5.23``, since SGLang
without its scheduler does not say its version. The model's name says which tokenizer it is: ``qwen3`` writes
``vllm-0.33.0.json``, any other ``vllm-0.33.0-NAME.json``. How the servers were started stands in ``HOW``: no weights, no
GPU. Two recordings of one server are equal.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

import httpx

from .shapes import KEY, ROUTES, SHAPES, Json, Probe, Shape, probes

FOLDER = Path(__file__).parent
HOW = {
    "vllm": (
        "vllm launch render MODEL_DIR --served-model-name NAME --api-key a-key, for qwen3 with --enable-auto-tool-choice "
        "--tool-call-parser hermes and for gemma3 without, with VLLM_TARGET_DEVICE=cpu and HF_HUB_OFFLINE=1; "
        "MODEL_DIR holds tokenizer.json, tokenizer_config.json and config.json"
    ),
    "sglang": (
        "SGLang's own HTTP front and tokenizer manager, --served-model-name NAME --api-key a-key --device cpu "
        "--load-format dummy --skip-server-warmup --attention-backend torch_native, its scheduler process replaced by one that only says ready; "
        "MODEL_DIR holds tokenizer.json, tokenizer_config.json and config.json"
    ),
}
CONSTANTS = {
    re.compile(r"\b(chatcmpl|cmpl|modelperm)-[0-9a-f]{16,32}\b"): r"\1-0",
    re.compile(r"(?<=\")/[^\"]*(?=/site-packages/)"): "/venv",
}
"""What differs from one run to the next, and what stands for it in a recording."""
VOLATILE_NUMBERS = {"created"}


def main(server: str, url: str, version: str = "") -> None:
    with httpx.Client(base_url=url, timeout=120) as client:
        recording = recording_of(client, server, version)
    path = file_of(recording)
    path.write_text(in_lines(recording), encoding="utf-8", newline="\n")
    refused = sum(entry["status"] != 200 for entry in recording["replies"])
    print(f"{path.name}: {len(recording['replies'])} replies ({refused} refused), {len(recording['raw'])} raw")


def recording_of(client: httpx.Client, server: str, version: str = "") -> Json:
    """All that a running server answers, without what only this run has."""
    model = client.get("/v1/models", headers=bearer(KEY)).json()["data"][0]
    name = str(model["id"])
    root = str(
        model["root"] if server == "vllm" else client.get("/model_info", headers=bearer(KEY)).json()["model_path"]
    )
    version = version or str(client.get("/version", headers=bearer(KEY)).json()["version"])
    recording = {
        "server": f"{server} {version}",
        "how": HOW[server],
        "tokenizer": name,
        "replies": [reply(client, route, shape, name) for route in ROUTES[server] for shape in SHAPES],
        "raw": [raw_reply(client, probe) for probe in probes(server, name)],
    }
    made: Json = stable(recording, root, f"/models/{name}")
    return made


def file_of(recording: Json) -> Path:
    """Where a recording is kept."""
    stem = recording["server"].replace(" ", "-")
    name = recording["tokenizer"]
    return FOLDER / (f"{stem}.json" if name == "qwen3" else f"{stem}-{name}.json")


def reply(client: httpx.Client, route: str, shape: Shape, model: str) -> Json:
    """What a route answers to a shape: the IDs, or the whole body of an error."""
    body = body_for(route, shape, model)
    answer = post(client, route, json.dumps(body, ensure_ascii=False))
    entry: Json = {
        "shape": shape.name,
        "route": route,
        "request": shape.request,
        "body": body,
        "status": answer.status_code,
    }
    if answer.status_code == 200:
        got = answer.json()
        return {**entry, "ids": got["token_ids" if "token_ids" in got else "tokens"]}
    return {**entry, "error": content_of(answer)}


def body_for(route: str, shape: Shape, model: str) -> Json:
    """The body a chat client would send; a flag stands in it when the request has it."""
    request = dict(shape.request)
    body: Json = {"model": model, "messages": request.pop("messages")}
    if "tools" in request:
        body["tools"] = request.pop("tools")
    if "template_kwargs" in request:
        body["chat_template_kwargs"] = request.pop("template_kwargs")
    if request.get("continue_final_message") and route in ROUTES["vllm"]:
        body["add_generation_prompt"] = False  # vLLM's default is true, and it refuses both
    return {**body, **request, **shape.body}


def raw_reply(client: httpx.Client, probe: Probe) -> Json:
    entry: Json = {"name": probe.name, "method": probe.method, "route": probe.route}
    if probe.key != KEY:
        entry["key"] = probe.key
    if probe.method == "GET":
        answer = client.get(probe.route, headers=bearer(probe.key))
    elif probe.text is not None:
        entry |= {"text": probe.text, "content_type": probe.content_type}
        answer = post(client, probe.route, probe.text, probe.content_type)
    else:
        entry["body"] = probe.body
        answer = post(client, probe.route, json.dumps(probe.body, ensure_ascii=False), key=probe.key)
    return {**entry, "status": answer.status_code, "reply": content_of(answer)}


def post(
    client: httpx.Client, route: str, content: str, content_type: str = "application/json", key: str | None = KEY
) -> httpx.Response:
    return client.post(route, content=content.encode(), headers={"content-type": content_type, **bearer(key)})


def bearer(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


def content_of(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text


def stable(value: Any, root: str, stand_in: str) -> Any:
    """The same without what only this run or this machine has: request IDs, times, the model's folder."""
    if isinstance(value, dict):
        return {
            key: 0 if key in VOLATILE_NUMBERS and isinstance(entry, int) else stable(entry, root, stand_in)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [stable(entry, root, stand_in) for entry in value]
    if not isinstance(value, str):
        return value
    value = value.replace(root, stand_in)
    for pattern, constant in CONSTANTS.items():
        value = pattern.sub(constant, value)
    return value


def in_lines(recording: Json) -> str:
    """JSON with each reply on a line of its own."""
    parts = [f"{in_one_line(key)}: {_value_in_lines(value)}" for key, value in recording.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _value_in_lines(value: Any) -> str:
    if not isinstance(value, list):
        return in_one_line(value)
    return "[\n" + ",\n".join(map(in_one_line, value)) + "\n]"


def in_one_line(value: Any) -> str:
    """JSON; escaped is what an editor would change or not show: marks that combine, separators, what is invisible."""
    return _escaped(json.dumps(value, ensure_ascii=False))


def _escaped(text: str) -> str:
    return "".join(json.dumps(char)[1:-1] if _is_fragile(char) else char for char in text)


def _is_fragile(char: str) -> bool:
    if char.isascii():
        return False
    return unicodedata.category(char)[0] in "MCZ" or not unicodedata.is_normalized("NFC", char)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ROUTES:
        sys.exit(f"usage: python -m tests.recorded.record {{{','.join(ROUTES)}}} URL [VERSION]")
    main(*sys.argv[1:])
