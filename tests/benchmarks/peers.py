# SPDX-FileCopyrightText: 2026 The Ferry Authors
# SPDX-License-Identifier: Apache-2.0

"""What P16 compares with: a Wan denoiser run by diffusers on a CPU, in a process of its own.

usage: peers.py resident|group|disk TRANSFORMER STEPS

resident: all weights in memory. group: diffusers' group offload, a block a group, weights on disk.
disk: accelerate's disk_offload. All compute in the checkpoint's bf16. Prints one JSON object: the
seconds of each step, those from the start of the process to the end of the first, and the largest
resident set in bytes.
"""

import json
import os
import sys
import tempfile
import time


def seconds_since_start():
    with open("/proc/self/stat") as stat:
        ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def peak_bytes():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024


def offload(model, mode, scratch, torch):
    cpu = torch.device("cpu")
    if mode == "group":
        model.enable_group_offload(onload_device=cpu, offload_device=cpu, num_blocks_per_group=1,
                                   offload_type="block_level", offload_to_disk_path=scratch)
    elif mode == "disk":
        import accelerate

        accelerate.disk_offload(model, scratch, execution_device=cpu)


def main(mode, transformer, steps):
    import torch
    from diffusers import WanTransformer3DModel

    torch.set_grad_enabled(False)
    model = WanTransformer3DModel.from_pretrained(transformer, torch_dtype=torch.bfloat16).eval()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(transformer)) as scratch:
        offload(model, mode, scratch, torch)
        latents = torch.randn(1, 16, 1, 16, 16, dtype=torch.bfloat16)
        text = torch.randn(1, 4, model.config.text_dim, dtype=torch.bfloat16)
        seconds, first = [], None
        for _ in range(int(steps)):
            started = time.monotonic()
            model(latents, torch.tensor([500.0]), text, return_dict=False)
            seconds.append(time.monotonic() - started)
            first = first or seconds_since_start()
    print(json.dumps({"step_s": seconds, "first_step_end_s": first, "peak_host_bytes": peak_bytes()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
