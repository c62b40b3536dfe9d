"""Whole renderers that a server may use in place of the model's own chat template.

Shimmy 2.5.0 knows three (`src/templates.rs`); it chooses one by the model's name, and leaves the system text in the
history. Each is given as a template, with what its prompts must show.
"""

from __future__ import annotations

_CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_LLAMA3 = (
    "{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n' + (m.content or '') + '<|eot_id|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n' }}{% endif %}"
)
_OPENCHAT = (
    "{% for m in messages %}{{ m.role + ': ' + (m.content or '') + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)

TEMPLATES: dict[str, tuple[str, str]] = {
    "ChatML": (_CHATML, "<|im_start|>"),
    "Llama3": (_LLAMA3, "<|start_header_id|>"),
    "OpenChat": (_OPENCHAT, "assistant: "),
}
"""The name of each family: its template, and what its prompts show."""
