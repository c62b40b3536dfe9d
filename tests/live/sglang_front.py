"""SGLang's own HTTP front, tokenizer manager and detokenizer, on a CPU and without weights: it renders and tokenizes.

Run by the Python that has SGLang, with the arguments of ``sglang.launch_server``. The scheduler, which would run the
model, is replaced by a process that says it is ready and waits: what would generate is never answered.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch

try:
    import torchvision  # noqa: F401  # SGLang imports it
except RuntimeError:
    # Its compiled operators do not load beside a torch that was built for CPUs alone, and without them it cannot be
    # imported: it describes two of them to torch. They are declared, and never called. (A library lives as long as its
    # name does.)
    DECLARED = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        DECLARED.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def wait_as_the_scheduler(*arguments: Any, **options: Any) -> None:
    """Stand for the scheduler's process: report to the front through the pipe among the arguments, then wait."""
    (pipe,) = (it for it in (*arguments, *options.values()) if hasattr(it, "send") and hasattr(it, "recv"))
    pipe.send(
        {
            "status": "ready",
            "max_total_num_tokens": 4096,
            "max_req_input_len": 4095,
            "startup_time": 0.0,
            "hicache_object_layout": None,
        }
    )
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    from sglang.srt.entrypoints.http_server import launch_server
    from sglang.srt.server_args import prepare_server_args

    launch_server(prepare_server_args(sys.argv[1:]), run_scheduler_process_func=wait_as_the_scheduler)
