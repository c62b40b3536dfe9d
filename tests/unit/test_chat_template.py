"""Templates in the environment that Transformers gives them: each is rendered by both, and the answers are the same."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from pytest_tokenparity import EngineError, Request, RequestRefused, TransformersTokens
from pytest_tokenparity.chat_template import Conventions, TemplateEnvironment, render, undeclared_variables
from pytest_tokenparity.engines.tokenizers import TokenizerFiles, TokenizersTokens
from pytest_tokenparity.engines.transformers import conventions

CLOCK = datetime(2026, 1, 2, 3, 4, 5)
TALK = [
    {"role": "user", "content": 'Count <b>"to"</b> three & é\u2028ß.'},
    {"role": "assistant", "content": "One, two, "},
]
TOOLS = [
    {
        "type": "function",
        "function": {"name": "zählen", "description": "a'b<c>&", "parameters": {"b": 1.0, "a": [None]}},
    }
]
EVERY_MESSAGE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"


def answers(tokenizer: Any, template: str, request: Request) -> tuple[str, str]:
    """What Transformers and what we make of it: the text, ``refused``, or ``error``."""
    files = TokenizerFiles.of_transformers(tokenizer)
    assert files is not None
    reference = TransformersTokens(tokenizer, template=template, clock=CLOCK)
    ours = TokenizersTokens(files, template=template, clock=CLOCK, conventions=conventions())
    seen = []
    for engine in (reference, ours):
        try:
            rendering = engine.render(request)
            refused = rendering.refused is not None
            assert refused == (rendering.ids is None)
            seen.append("refused" if refused else f"{engine.text(request)} {rendering.ids}")
        except EngineError:
            seen.append("error")
    return seen[0], seen[1]


def assert_same(tokenizer: Any, template: str, request: Request) -> str:
    reference, ours = answers(tokenizer, template, request)
    assert reference == ours
    return ours


@pytest.mark.parametrize(
    "template",
    [
        # tojson, with every argument
        "{{ tools | tojson }}",
        "{{ tools | tojson(true) }}",
        "{{ tools | tojson(ensure_ascii=true) }}",
        "{{ tools | tojson(indent=2) }}",
        "{{ tools | tojson(separators=(',', ':')) }}",
        "{{ tools | tojson(sort_keys=true) }}",
        "{{ tools | tojson(true, 1, ('; ', ' = '), true) }}",
        "{{ messages | map('tojson') | join('+') }}",
        "{% macro json(value) %}{{ value | tojson }}{% endmacro %}{{ json(messages) }}",
        "{% block inner %}{{ messages | tojson }}{{ strftime_now('%y') }}{% endblock %}",
        "{{ (true, 1.0, 1e100, none, 'ß') | tojson }}",
        # the clock
        "{{ strftime_now('%d %b %Y %H:%M:%S') }}",
        "{% set now = strftime_now %}{{ now('%Y') }}",
        "{% macro date() %}{{ strftime_now('%y') }}{% endmacro %}{{ date() }}",
        "{{ strftime_now is defined }}",
        # what is there and what is not
        "{{ tools is none }} {{ documents is none }} {{ documents is defined }} {{ other is defined }}",
        "{{ add_generation_prompt }} {{ messages | length }} {{ tools is iterable }} {{ messages[0] is mapping }}",
        "{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ pad_token }}|{{ cls_token is defined }}",
        "{{ missing }}",
        # loops and generation
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% break %}{% endfor %}",
        "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}{% endfor %}",
        "a {%- generation -%} x {%- endgeneration -%} y",
        "{% set a = 1 %}{% generation %}{% set a = 2 %}{{ a }}{% endgeneration %}{{ a }}",
        # namespace and dict
        "{% set ns = namespace(a=1, self=2) %}{% for m in messages %}{% set ns.a = ns.a + 1 %}{% endfor %}{{ ns.a ~ ns.self }}",
        "{% set ns = namespace({'b': 3}) %}{{ ns.b }}",
        "{% set ns = namespace({1: 2}) %}{{ ns is defined }}",
        "{{ dict(a=1, **{'b': 2}) | tojson }}{{ dict([(1, 2)]) }}",
        "{{ dict.fromkeys([1, 2], 3) | tojson }}",
        # white space
        "{% for m in messages %}\n  {% if true %}\n    {{ m.content }}\n  {% endif %}\n{% endfor %}\n\n",
        "a\n  {#- comment #}\n b  \n{% raw %}{{ x }}{% endraw %}\n",
        "a\r\nb\r\n{{ messages | length }}\r\n",
        # values
        "{{ messages }}{{ tools }}",
        "{{ messages[0].content | e }} {{ '%s' | format('a') }}",
        "{% autoescape true %}{{ messages[0].content }}{% endautoescape %}",
        "{{ messages[0].content.split(' ') }} {{ messages[::-1][0].role }} {{ messages[0].items() | list }}",
        "",
    ],
)
def test_a_template_gives_the_text_that_transformers_gives(qwen_tokenizer: Any, template: str) -> None:
    assert assert_same(qwen_tokenizer, template, Request(TALK, TOOLS)) not in ("refused", "error")
    assert_same(qwen_tokenizer, template, Request(TALK, add_generation_prompt=False))


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(a=1) }}",
        "{{ messages[0].pop('role') }}",
        "{{ tools[0].function.clear() }}",
        "{{ '{0.__class__.__mro__}'.format('a') }}",
        "{{ (''|attr('__class__')).__mro__ }}",
        "{{ range(1000000) | list }}",
        "{{ raise_exception('no') }}",
        "{{ raise_exception() }}",
        "{{ missing.key }}",
        "{{ messages[9].role }}",
        "{{ missing | tojson }}",
        "{{ tools | tojson(unknown=1) }}",
        "{{ strftime_now() }}",
        "{{ 1 / 0 }}",
        "{% include 'other' %}",
    ],
)
def test_what_transformers_refuses_is_refused(qwen_tokenizer: Any, template: str) -> None:
    assert assert_same(qwen_tokenizer, template, Request(TALK, TOOLS)) == "refused"


@pytest.mark.parametrize("template", ["{{ ''.__class__ }}", "{{ dict.__class__ }}", "{{ ''|attr('__class__') }}"])
def test_the_sandbox_shows_no_attribute_with_underscores(qwen_tokenizer: Any, template: str) -> None:
    assert_same(qwen_tokenizer, template, Request(TALK))
    assert "class" not in answers(qwen_tokenizer, template, Request(TALK))[1]


@pytest.mark.parametrize(
    "template", ["{% set ns = namespace(_a=1) %}{{ ns._a }}", "{% set ns = namespace() %}{% set ns._a = 1 %}x"]
)
def test_a_namespace_takes_no_name_with_an_underscore(qwen_tokenizer: Any, template: str) -> None:
    reference, ours = answers(qwen_tokenizer, template, Request(TALK))
    assert ours == "refused"
    if conventions().alias_reasoning:  # older versions let it through
        assert reference == "refused"


@pytest.mark.parametrize(
    "template",
    [
        "fine\n{% if %}",
        "{{ messages",
        "{% for m in messages %}",
        "{% generation %}",
        "{{ messages | no_such_filter }}",
        "{{ messages is no_such_test }}",
        "{% break %}",
        "{% do 1 %}",
    ],
)
def test_a_template_that_is_none_is_an_error_for_both(qwen_tokenizer: Any, template: str) -> None:
    assert assert_same(qwen_tokenizer, template, Request(TALK)) == "error"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("fine\n{% if %}", "tokenizers: the chat template has a syntax error on line 2: Expected an expression"),
        ("{% break %}", "tokenizers: the chat template has a syntax error: 'break' outside loop"),
    ],
)
def test_a_template_with_a_syntax_error_says_where(qwen_tokenizer: Any, template: str, message: str) -> None:
    files = TokenizerFiles.of_transformers(qwen_tokenizer)
    assert files is not None
    with pytest.raises(EngineError) as raised:
        TokenizersTokens(files, template=template).render(Request(TALK))
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("template", "kwargs"),
    [
        ("{{ bos_token }}{{ eos_token }}{{ x | tojson }}", {"bos_token": "B", "eos_token": "E", "x": {"a": [1, None]}}),
        ("{{ eos_token }} {{ eos_token is none }}", {"eos_token": None}),
        ("{{ documents | tojson }}", {"documents": [{"title": "a", "text": "b"}]}),
        ("{{ documents | tojson }}", {"documents": []}),
        ("{{ documents | tojson }}", {"documents": ["a"]}),
        ("{{ documents | tojson }}", {"documents": "ab"}),
        (
            "{{ strftime_now }}{{ dict }}{{ raise_exception }}",
            {"strftime_now": "a", "dict": "b", "raise_exception": "c"},
        ),
    ],
)
def test_template_kwargs_win_over_everything_else(qwen_tokenizer: Any, template: str, kwargs: dict[str, Any]) -> None:
    assert_same(qwen_tokenizer, template, Request(TALK, template_kwargs=kwargs))


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "name": None, "tool_calls": []},
        {"content": "a", "thinking": "t"},
        {"content": "a", "reasoning": "r", "extra": None},
        {"content": "a", "reasoning_content": None, "thinking": "", "reasoning": "z"},
        {"content": "a", "reasoning_content": "1", "thinking": "2", "reasoning": "3"},
    ],
    ids=["null keys", "thinking", "reasoning", "an empty one counts", "all three"],
)
def test_null_keys_and_names_of_reasoning_are_as_in_the_installed_transformers(
    qwen_tokenizer: Any, message: dict[str, Any]
) -> None:
    assert_same(qwen_tokenizer, "{{ messages | tojson }}", Request([{"role": "assistant", **message}]))


CONTENTS = {
    "string": "One, two, ",
    "empty": "",
    "only white space": " \n ",
    "parts": [{"type": "text", "text": "one "}, {"type": "text", "text": "two "}, {"type": "image"}],
    "no part with text": [{"type": "image"}],
    "no parts": [],
    "null text": [{"type": "text", "text": None}],
    "number for text": [{"type": "text", "text": 5}],
    "strings for parts": ["x", "a text"],
    "null": None,
    "number": 5,
    "mapping": {"text": "a"},
    "Transformers' own tag": "a CONTINUE_FINAL_MESSAGE_TAG b",
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize(
    "template",
    [
        EVERY_MESSAGE,
        "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}",
        "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}end",
        "{% for m in messages %}{{ m.content | tojson }}{% endfor %}",
        "{% for m in messages %}{{ m.content | tojson(ensure_ascii=true) }}{% endfor %}",
        "dropped {# content #}",
        "{{ messages[-1].content[:3] }}",
        "{{ messages[-1].content | upper }}",
        "{{ messages[-1].content }} and {{ messages[-1].content }}",
        "{{ messages[-1].content | length }} {{ messages[-1].content }}",
        "{{ messages[-1].content | replace(' ', '') }}",
    ],
    ids=["as it is", "trimmed", "parts", "JSON", "ASCII", "dropped", "cut", "upper", "twice", "length", "no spaces"],
)
def test_the_final_message_is_continued_as_in_transformers(qwen_tokenizer: Any, template: str, content: Any) -> None:
    talk = [TALK[0], {"role": "assistant", "content": content}]
    assert_same(qwen_tokenizer, template, Request(talk, add_generation_prompt=False, continue_final_message=True))


def test_a_continued_message_that_the_template_says_twice_is_cut_at_the_second(qwen_tokenizer: Any) -> None:
    talk = [{"role": "user", "content": "same"}, {"role": "assistant", "content": "same"}]
    request = Request(talk, add_generation_prompt=False, continue_final_message=True)
    assert assert_same(qwen_tokenizer, EVERY_MESSAGE, request).startswith("[user]same\n[assistant]same [")


@pytest.mark.parametrize(
    "request_",
    [
        Request([]),
        Request([], add_generation_prompt=False, continue_final_message=True),
        Request(TALK, continue_final_message=True),
        Request([{"role": "assistant"}], add_generation_prompt=False, continue_final_message=True),
        Request([{"role": "user", "content": "\ud800"}]),
    ],
    ids=["no message", "none to continue", "continued with a generation prompt", "no content", "half a surrogate pair"],
)
def test_a_request_that_cannot_be_rendered_is_refused_by_both(qwen_tokenizer: Any, request_: Request) -> None:
    assert assert_same(qwen_tokenizer, EVERY_MESSAGE, request_) == "refused"


def test_rendering_changes_nothing_of_the_request(qwen_tokenizer: Any) -> None:
    parts = [{"type": "text", "text": "a"}]
    last: dict[str, Any] = {"role": "assistant", "content": parts, "x": None, "thinking": "t"}
    request = Request([TALK[0], last], TOOLS, {"a": [1]}, add_generation_prompt=False, continue_final_message=True)
    before = request.copy()
    render("{{ messages[-1].content[0].text }}", request, TemplateEnvironment())
    assert before == request


def test_without_a_clock_the_time_is_real() -> None:
    before = datetime.now()
    text = render("{{ strftime_now('%Y-%m-%d %H:%M:%S.%f') }}", Request(TALK), TemplateEnvironment())
    assert before <= datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f") <= datetime.now()


def test_two_environments_share_a_template_and_nothing_else() -> None:
    template = "{{ strftime_now('%Y') }} {{ [1] | tojson }}{{ a }} {{ messages[0].get('x', 'none') }}"
    request = Request([{"role": "user", "content": "Hi", "x": None}])
    first = TemplateEnvironment(clock=datetime(2001, 1, 1), tojson=lambda *_, **__: "JSON", variables={"a": "A"})
    second = TemplateEnvironment(clock=datetime(2002, 1, 1), conventions=Conventions(drop_null_keys=False))
    assert render(template, request, first) == "2001 JSONA none"
    assert render(template, request, second) == "2002 [1] None"
    assert render(template, request, first) == "2001 JSONA none"


def test_a_refusal_is_one_line_with_the_templates_own_words() -> None:
    with pytest.raises(RequestRefused) as raised:
        render("{{ raise_exception('two\n  lines') }}", Request(TALK), TemplateEnvironment())
    assert str(raised.value) == "two lines"


def test_undeclared_variables_are_those_that_a_template_reads_from_outside() -> None:
    template = "{% set a = 1 %}{{ a }}{{ date_string }}{% for m in messages %}{{ m }}{% endfor %}{{ dict() }}"
    assert undeclared_variables(template) >= {"date_string", "messages"}
    assert not undeclared_variables(template) & {"a", "m"}
