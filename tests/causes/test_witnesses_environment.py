"""Causes around the template: other templates and variables, and JSON of C++, JavaScript, Rust and Go."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from shutil import which
from typing import Any

import minijinja
import pytest

from pytest_tokenparity import LlamaCppTokens, Request
from pytest_tokenparity.engines.base import Rendering
from pytest_tokenparity.engines.tokenizers import TokenizersTokens

from ..llama_server import llama_server
from ..real_models import CACHE, fetch
from ..tiny_gguf import write_tiny_gguf
from .witnesses import (
    FOREIGN,
    QUESTION,
    SYSTEM,
    TALK,
    TOOL,
    USER,
    Json,
    assert_client_explained,
    assert_explained,
    called,
    encoded,
    llama_text,
    python_json,
    qwen_text,
    reference,
    tool,
    user,
)

CALL = "messages[1].tool_calls[0].function.arguments"
DATED = {"date_string": "26 Jul 2024"}


def of_server(
    url: str, family: str, request: Request, causes: list[str], where: str, template: str | None = None
) -> None:
    with LlamaCppTokens(url) as server:
        answer = server.render(request)
    assert answer.ids is not None, answer
    assert_explained(
        reference(family), request, answer.ids, answer.text, causes, where, engine="llama-server", template=template
    )


def with_number(*numbers: float, **more: Any) -> Json:
    return tool(parameters={"type": "object", "properties": {"n": {"type": "number", "enum": list(numbers), **more}}})


NUMBER = "tools[0].function.parameters.properties.n.enum[0]"


# Another template on the server


@contextmanager
def serving(family: str, folder: Path, template: str) -> Iterator[str]:
    """A llama-server whose GGUF has another template than the model's files."""
    gguf = folder / "stale.gguf"
    write_tiny_gguf(family, fetch(family), gguf, template)
    with llama_server(gguf) as url:
        yield url


def shown_by(url: str, request: Request) -> tuple[Rendering, str]:
    """What a llama-server renders, and the template that it shows."""
    import httpx

    with LlamaCppTokens(url) as server:
        return server.render(request), str(httpx.get(f"{url}/props").json()["chat_template"])


STALE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if tools is defined %}{{ '<|im_start|>tools\\n' }}{% endif %}"
    "{% if documents is defined %}{{ '<|im_start|>documents\\n' }}{% endif %}"
    "{% if enable_thinking is defined %}{{ '<|im_start|>thinking: ' + (enable_thinking | string | lower) + '\\n' }}{% endif %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@pytest.fixture(scope="module")
def stale_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving("qwen3", tmp_path_factory.mktemp("stale"), STALE) as url:
        yield url


def test_a_gguf_with_a_stale_template_is_known_by_the_template_that_its_server_shows(
    tmp_path: Path,
) -> None:
    with serving(
        "qwen3", tmp_path, reference("qwen3").template_for(Request([])).replace("assistant\\n", "bot\\n")
    ) as url:
        answer, template = shown_by(url, Request(QUESTION))
    assert answer.ids is not None
    causes = [f"template-differs: {len(template)} characters"]
    where = "the chat template"
    assert_explained(
        reference("qwen3"),
        Request(QUESTION),
        answer.ids,
        answer.text,
        causes,
        where,
        engine="llama-server",
        template=template,
    )


def test_a_stale_template_does_not_hide_that_llama_server_drops_a_field(tmp_path: Path) -> None:
    template = reference("qwen3").template_for(Request([])).replace("# Tools", "# Functions")
    request = Request(QUESTION, [tool(strict=True)])
    with serving("qwen3", tmp_path, template) as url:
        answer, shown = shown_by(url, request)
    assert answer.ids is not None
    causes = ["tool-field-dropped: strict", f"template-differs: {len(shown)} characters"]
    where = "tools[0].function.strict"
    assert_explained(
        reference("qwen3"), request, answer.ids, answer.text, causes, where, engine="llama-server", template=shown
    )


def test_llama_server_defines_whether_it_thinks_and_leaves_undefined_what_is_not_there(stale_url: str) -> None:
    answer, template = shown_by(stale_url, Request(QUESTION))
    assert answer.ids is not None
    asked = reference("qwen3", template)
    said = re.search("thinking: (true|false)", answer.text or "")
    assert said
    causes = [f"thinking-default: {said[1]}", "undefined-variables: documents, tools"]
    where = "template_kwargs.enable_thinking"
    assert_explained(asked, Request(QUESTION), answer.ids, answer.text, causes, where, engine="llama-server")


def test_llama_server_defines_whether_it_thinks(tmp_path: Path) -> None:
    template = re.sub(r"{% if (tools|documents) is defined.*?endif %}", "", STALE)
    with serving("qwen3", tmp_path, template) as url:
        answer, shown = shown_by(url, Request(QUESTION))
    assert answer.ids is not None
    said = re.search("thinking: (true|false)", answer.text or "")
    assert said
    causes, where = [f"thinking-default: {said[1]}"], "template_kwargs.enable_thinking"
    asked = reference("qwen3", shown)
    assert_explained(asked, Request(QUESTION), answer.ids, answer.text, causes, where, engine="llama-server")


def test_llama_server_leaves_tools_undefined_in_a_template_that_asks(stale_url: str) -> None:
    request = Request(QUESTION, template_kwargs={"enable_thinking": True, "documents": [{"title": "a", "text": "b"}]})
    answer, template = shown_by(stale_url, request)
    assert answer.ids is not None
    causes = ["undefined-variables: tools"]
    asked = reference("qwen3", template)
    assert_explained(asked, request, answer.ids, answer.text, causes, "tools", engine="llama-server")


# A family in place of the template, as Shimmy 2.5.0 has them


def shimmy_chatml(messages: Sequence[Json]) -> str:
    text = "".join(f"<|im_start|>{it['role']}\n{it['content']}<|im_end|>\n" for it in messages)
    return f"{text}<|im_start|>assistant\n"


def shimmy_llama3(messages: Sequence[Json]) -> str:
    header = "<|start_header_id|>{}<|end_header_id|>\n"
    text = "".join(f"{header.format(it['role'])}{it['content']}<|eot_id|>" for it in messages)
    return text + header.format("assistant")


def shimmy_openchat(messages: Sequence[Json]) -> str:
    return "".join(f"{it['role']}: {it['content']}\n" for it in messages) + "assistant: "


@pytest.mark.parametrize("talk", [QUESTION, TALK])
@pytest.mark.parametrize(
    ("family", "render", "parameter"),
    [
        ("gemma3", shimmy_chatml, "ChatML"),
        ("llama3.1", shimmy_chatml, "ChatML"),
        ("deepseek-v3", shimmy_chatml, "ChatML"),
        ("llama3.1", shimmy_llama3, "Llama3"),
        ("qwen3", shimmy_openchat, "OpenChat"),
        ("gemma3", shimmy_openchat, "OpenChat"),
    ],
)
@pytest.mark.parametrize("engine", ["shimmy", "client-completion"])
def test_a_server_renders_a_family_in_place_of_the_models_template(
    family: str, render: Callable[[Sequence[Json]], str], parameter: str, engine: str, talk: list[Json]
) -> None:
    text = render(talk)
    causes, where = [f"template-family: {parameter}"], "the chat template"
    assert_explained(reference(family), Request(talk), encoded(family, text), text, causes, where, engine=engine)


def test_shimmy_reads_the_special_tokens_of_its_family_as_text() -> None:
    ids = _plain("llama3.1", shimmy_llama3(TALK))
    causes = ["template-family: Llama3", "special-as-text"]
    assert_explained(
        reference("llama3.1"), Request(TALK), ids, shimmy_llama3(TALK), causes, "the chat template", engine="shimmy"
    )


def _plain(family: str, text: str) -> list[int]:
    from tokenizers import Tokenizer

    plain = Tokenizer.from_file(str(fetch(family) / "tokenizer.json"))
    plain.encode_special_tokens = True
    return list(plain.encode(text, add_special_tokens=False).ids)


# Dates


def test_llama_server_puts_the_day_into_a_template_that_asks_for_it(llama_url: str) -> None:
    days = [date.today()]
    with LlamaCppTokens(llama_url) as server:
        answer = server.render(Request(QUESTION))
    days.append(date.today())
    assert answer.ids is not None
    (shown,) = {day.strftime("%d %b %Y") for day in days if day.strftime("%d %b %Y") in (answer.text or "")}
    assert_explained(
        reference("llama3.1"),
        Request(QUESTION),
        answer.ids,
        answer.text,
        [f"date: {shown}"],
        "template_kwargs.date_string",
        engine="llama-server",
    )


@pytest.mark.parametrize("shown", ["05 Feb 2026", "5 February 2026", "2026-02-05", "February 5, 2026"])
def test_a_client_writes_a_date_of_its_own(shown: str) -> None:
    text = llama_text(QUESTION, date=shown)
    assert_client_explained("llama3.1", Request(QUESTION), text, [f"date: {shown}"], "template_kwargs.date_string")


@pytest.mark.parametrize("form", ["%d %b %Y", "%Y-%m-%d", "%B %d, %Y", "%A, %d %B %Y", "%Y-%m-%d %H:%M"])
def test_a_clock_that_stands_elsewhere_is_a_date(form: str) -> None:
    template = (
        f"{{{{ '<|im_start|>system\\nToday is ' + strftime_now('{form}') + '.<|im_end|>\\n' }}}}"
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    )
    ours, theirs = datetime(2026, 1, 2, 3, 4, 5), datetime(2026, 2, 5, 3, 4, 5)
    asked = TokenizersTokens(fetch("qwen3"), template=template, clock=ours)
    text = f"<|im_start|>system\nToday is {theirs.strftime(form)}.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    written = {"%A, %d %B %Y": "%d %B %Y", "%Y-%m-%d %H:%M": "%Y-%m-%d"}.get(form, form)
    causes = [f"date: {theirs.strftime(written)}"]
    assert_explained(asked, Request([user("Hi")]), encoded("qwen3", text), text, causes, "the clock")


# JSON: llama.cpp


@pytest.mark.parametrize(
    ("number", "becomes"),
    [
        (1.0, "1.0 became 1"),
        (0.1234567891, "0.1234567891 became 0.123457"),
        (12345678901234567890, "12345678901234567890 became -6101065172474983726"),
        (1234567.5, "1234567.5 became 1.23457e+06"),
    ],
)
def test_llama_server_writes_a_number_of_a_schema_with_six_digits(qwen_url: str, number: float, becomes: str) -> None:
    of_server(qwen_url, "qwen3", Request(QUESTION, [with_number(number)]), [f"tool-json-format: {becomes}"], NUMBER)


def test_llama_server_writes_a_number_of_a_schema_that_is_written_over_lines(llama_url: str) -> None:
    request = Request(QUESTION, [with_number(1.0, 0.1234567891)], DATED)
    causes = ["tool-json-format: 1.0 became 1, 0.1234567891 became 0.123457"]
    of_server(llama_url, "llama3.1", request, causes, NUMBER)


def test_llama_server_writes_a_number_of_arguments_with_six_digits(llama_url: str) -> None:
    request = Request(called({"n": 0.1234567891}), None, DATED)
    causes = ["tool-json-format: 0.1234567891 became 0.123457"]
    of_server(llama_url, "llama3.1", request, causes, f"{CALL}.n")


def test_llama_server_parses_arguments_and_writes_their_numbers_with_six_digits(llama_url: str) -> None:
    request = Request(called('{"n":0.1234567891}'), None, DATED)
    causes = ["arguments-parsed", "tool-json-format: 0.1234567891 became 0.123457"]
    of_server(llama_url, "llama3.1", request, causes, CALL)


PRINTS = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{% for key, value in c.function.arguments | items %}{{ key }}={{ value }};{% endfor %}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
)
"""A template that writes arguments without JSON, as Qwen3-Coder's does."""


@pytest.fixture(scope="module")
def prints_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving("qwen3", tmp_path_factory.mktemp("prints"), PRINTS) as url:
        yield url


@pytest.mark.parametrize(
    ("value", "parameter"),
    [
        (0.1234567891, "0.1234567891 became 0.123457"),
        (12345678901234567890, "12345678901234567890 became -6101065172474983726"),
        (1e-7, "1e-07 became 0.0 outside JSON"),
        *(
            (value, "None and mappings printed as nothing, lists run together")
            for value in (None, ["a", "b"], {"a": 1}, ["a", None, ["b"]])
        ),
    ],
)
def test_llama_server_prints_a_value_outside_json_in_its_own_way(prints_url: str, value: Any, parameter: str) -> None:
    request = Request(called({"n": value}))
    with LlamaCppTokens(prints_url) as server:
        answer = server.render(request)
    assert answer.ids is not None, answer
    asked, causes = reference("qwen3", PRINTS), [f"tool-json-format: {parameter}"]
    assert_explained(asked, request, answer.ids, answer.text, causes, f"{CALL}.n", engine="llama-server")


def test_llama_server_prints_a_whole_float_outside_json_with_its_point_and_in_json_without(tmp_path: Path) -> None:
    both = PRINTS.replace("{{ value }};", "{{ value }};{{ value | tojson }}")
    request = Request(called({"n": 1.0}))
    with serving("qwen3", tmp_path, both) as url, LlamaCppTokens(url) as server:
        answer = server.render(request)
    assert answer.ids is not None, answer
    assert "n=1.0;1<|im_end|>" in (answer.text or "")
    asked, causes = reference("qwen3", both), ["tool-json-format: 1.0 became 1"]
    assert_explained(asked, request, answer.ids, answer.text, causes, f"{CALL}.n", engine="llama-server")


# JSON: Rust, by minijinja


def rust_text(messages: Sequence[Json], tools: Sequence[Json] | None, family: str = "qwen3") -> str:
    template = reference(family).template_for(Request(messages, tools))
    environment = minijinja.Environment(
        templates={"chat": template}, trim_blocks=True, lstrip_blocks=True, pycompat=True
    )
    return str(
        environment.render_template(
            "chat", messages=messages, tools=tools, add_generation_prompt=True, bos_token=reference(family).files.bos
        )
    )


@pytest.mark.parametrize(
    ("changed", "parameter", "where"),
    [
        (tool(description="a < b > c & d's"), "< > & ' became \\u003c", "tools[0].function.description"),
        (tool(description=FOREIGN), "< > & ' became \\u003c", "tools[0].function.description"),
        (tool(description="the user's city"), "< > & ' became \\u003c", "tools[0].function.description"),
        (with_number(1e-7), "1e-07 became 1e-7", NUMBER),
    ],
)
def test_minijinja_writes_json_in_its_own_way(changed: Json, parameter: str, where: str) -> None:
    text = rust_text(QUESTION, [changed])
    causes = [f"tool-json-format: {parameter}"]
    assert_client_explained("qwen3", Request(QUESTION, [changed]), text, causes, where)


def test_minijinja_escapes_and_writes_numbers_at_once() -> None:
    changed = with_number(1e-7, description="a < b's")
    causes = ["tool-json-format: < > & ' became \\u003c, 1e-07 became 1e-7"]
    where = "tools[0].function.parameters.properties.n.enum[0]"
    assert_client_explained("qwen3", Request(QUESTION, [changed]), rust_text(QUESTION, [changed]), causes, where)


def test_minijinja_escapes_what_stands_in_arguments() -> None:
    talk = called({"city": "<b>Paris & 'Rome'</b>"})
    causes = ["tool-json-format: < > & ' became \\u003c"]
    assert_client_explained("qwen3", Request(talk, [TOOL]), rust_text(talk, [TOOL]), causes, f"{CALL}.city")


# JSON: JavaScript, by @huggingface/jinja

JINJA = "@huggingface/jinja@0.5.11"
SCRIPT = """
import { readFileSync } from "node:fs";
import { Template } from "@huggingface/jinja";
const { template, context } = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(new Template(template).render(context));
"""


@pytest.fixture(scope="module")
def javascript() -> Callable[..., str]:
    """Renders a model's template as transformers.js does."""
    npm, node = which("npm"), which("node")
    assert npm
    assert node
    home = CACHE / "huggingface-jinja-0.5.11"
    if not (home / "node_modules" / "@huggingface" / "jinja").is_dir():
        home.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [npm, "install", "--silent", "--no-save", JINJA], cwd=home, check=True, stdout=subprocess.DEVNULL
        )
    (home / "render.mjs").write_text(SCRIPT, encoding="utf-8")

    def render(template: str, **context: Any) -> str:
        body = json.dumps({"template": template, "context": {"add_generation_prompt": True, **context}})
        done = subprocess.run(
            [node, "render.mjs"], cwd=home, input=body, capture_output=True, check=False, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return render


@pytest.mark.parametrize(
    ("number", "becomes"),
    [
        (1.0, "1.0 became 1"),
        (1e-7, "1e-07 became 1e-7"),
        (1e22, "1e+22 became 1e+22"),
        (12345678901234567890, "12345678901234567890 became 12345678901234567000"),
        (1e16, "1e+16 became 10000000000000000"),
        (-0.0, "-0.0 became 0"),
        (1.5e300, "1.5e+300 became 1.5e+300"),
        (123456789012345680000.0, "1.2345678901234568e+20 became 123456789012345680000"),
        (0.000001, "1e-06 became 0.000001"),
        (1.5e-6, "1.5e-06 became 0.0000015"),
        (9007199254740993, "9007199254740993 became 9007199254740992"),
    ],
)
def test_javascript_writes_a_number_in_its_own_way(javascript: Callable[..., str], number: float, becomes: str) -> None:
    request = Request(QUESTION, [with_number(number)])
    text = javascript(reference("qwen3").template_for(request), messages=QUESTION, tools=request.tools)
    before, after = becomes.split(" became ")
    if before == after:
        assert text == qwen_text(QUESTION, request.tools or ())
    else:
        assert_client_explained("qwen3", request, text, [f"tool-json-format: {becomes}"], NUMBER)


def test_javascript_writes_numbers_of_arguments(javascript: Callable[..., str]) -> None:
    talk = called({"n": 1.0, "m": 1e-7})
    text = javascript(reference("qwen3").template_for(Request(talk)), messages=talk)
    causes = ["tool-json-format: 1.0 became 1, 1e-07 became 1e-7"]
    assert_client_explained("qwen3", Request(talk), text, causes, f"{CALL}.n")


@pytest.mark.parametrize("value", [True, False, None])
def test_javascript_prints_true_false_and_nothing(javascript: Callable[..., str], value: Any) -> None:
    talk = called({"n": value, "m": True})
    text = javascript(PRINTS, messages=talk)
    causes = ["tool-json-format: True, False and None printed as true, false and nothing"]
    assert_client_explained("qwen3", Request(talk), text, causes, f"{CALL}.n", template=PRINTS)


def test_json_stringify_writes_no_spaces() -> None:
    request = Request(QUESTION, [TOOL])
    text = qwen_text(QUESTION, [TOOL], write=lambda it: json.dumps(it, ensure_ascii=False, separators=(",", ":")))
    causes = ["tool-json-format: no spaces after , and :"]
    assert_client_explained("qwen3", request, text, causes, "tools[0]")


# JSON: Go, whose encoding/json escapes < > & and U+2028, sorts the keys of maps and leaves out .0


GO_TOOL = (
    '{"type":"function","function":{"name":"lookup","description":"a \\u003c b \\u0026 c","parameters":{"type":"object",'
    '"properties":{"city":{"type":"string"},"flag":{"type":"boolean"}}}}}'
)


def test_go_escapes_for_html_and_writes_no_spaces() -> None:
    request = Request(QUESTION, [tool(description="a < b & c")])
    text = qwen_text(QUESTION, ["?"]).replace('"?"', GO_TOOL)  # type: ignore[list-item]
    causes = ["tool-json-format: no spaces after , and :, < > & became \\u003c"]
    assert_client_explained("qwen3", request, text, causes, "tools[0]")


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (1.0, "1"),
        (1e-7, "1e-7"),
        (1e22, "1e+22"),
        (1e20, "100000000000000000000"),
        (12345678901234567890, "12345678901234567000"),
    ],
)
def test_go_writes_a_number_as_a_float64(number: float, written: str) -> None:
    request = Request(QUESTION, [with_number(number)])
    text = qwen_text(QUESTION, request.tools or ()).replace(f"[{python_json(number)}]", f"[{written}]")
    if written != python_json(number):
        causes = [f"tool-json-format: {python_json(number)} became {written}"]
        assert_client_explained("qwen3", request, text, causes, NUMBER)


def test_go_escapes_for_html_with_spaces_as_a_template_function_may() -> None:
    request = Request(QUESTION, [tool(description="a < b & c, the user's")])
    text = qwen_text(QUESTION, request.tools or ()).replace("a < b & c", "a \\u003c b \\u0026 c")
    causes = ["tool-json-format: < > & became \\u003c"]
    assert_client_explained("qwen3", request, text, causes, "tools[0].function.description")


def test_go_sorts_the_keys_of_arguments_and_escapes_them() -> None:
    talk = called({"zone": "<UTC>'s", "city": "Paris"})
    text = qwen_text(called('{"city": "Paris", "zone": "\\u003cUTC\\u003e\'s"}'), [TOOL])
    causes = ["arguments-reordered: sorted", "tool-json-format: < > & became \\u003c"]
    assert_client_explained("qwen3", Request(talk, [TOOL]), text, causes, f"{CALL}.zone")


# JSON: others


@pytest.mark.parametrize(
    ("write", "parameter"),
    [
        (json.dumps, "other letters became \\uXXXX"),
        (lambda it: python_json(it).replace("/", "\\/"), "/ became \\/"),
    ],
)
def test_a_client_escapes_letters_or_slashes(write: Callable[[Any], str], parameter: str) -> None:
    request = Request(QUESTION, [tool(description=FOREIGN)])
    text = qwen_text(QUESTION, request.tools or (), write=write)
    causes = [f"tool-json-format: {parameter}"]
    assert_client_explained("qwen3", request, text, causes, "tools[0].function.description")


def test_a_client_escapes_letters_and_slashes_as_php_does() -> None:
    request = Request(QUESTION, [tool(description=FOREIGN)])
    text = qwen_text(
        QUESTION, request.tools or (), write=lambda it: json.dumps(it, separators=(",", ":")).replace("/", "\\/")
    )
    causes = ["tool-json-format: no spaces after , and :, other letters became \\uXXXX, / became \\/"]
    assert_client_explained("qwen3", request, text, causes, "tools[0]")


def test_a_client_writes_tools_on_one_line_that_llama_3_1_writes_on_many() -> None:
    request = Request([SYSTEM, USER], [TOOL])
    text = reference("llama3.1").text(request)
    written = json.dumps(TOOL, indent=4)
    assert written in text
    causes = ["tool-json-format: no indentation"]
    assert_client_explained("llama3.1", request, text.replace(written, json.dumps(TOOL)), causes, "tools[0]")
