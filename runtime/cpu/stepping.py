"""A step as one native function: the plan in LLVM IR, which calls the kernels."""

from __future__ import annotations

from collections.abc import Sequence

from tensorgrad.runtime.cpu.pool import pool_text
from tensorgrad.runtime.program import Copy, Dispatch, Program, Repeat, Step, runs

STEP = "tg_step"
"""The function's name; its arguments are the frame, the pool, and scratch memory.

The frame has the address of each buffer, then, for each depth of loops, the present iteration index. Without a pool,
the caller's thread runs all tasks.
"""


def step_texts(program: Program) -> list[str]:
    """Returns LLVM IR of a program's kernels, a module each, and of its step."""
    return [*(kernel.code for kernel in program.kernels), _Plan(program).text()]


def dispatch_name(number: int) -> str:
    """Returns the name of the function that runs a range of tasks of the plan's dispatch of that number."""
    return f"tg_dispatch{number}"


class _Plan:
    """Writes the plan of a program."""

    def __init__(self, program: Program):
        self.program = program
        self.functions: list[str] = []
        self.declared: dict[str, None] = {}
        self.lines: list[str] = []
        self.count = 0

    def text(self) -> str:
        """Returns the functions of dispatches, and that of the step."""
        self._steps(self.program.plan, 0)
        body = "\n".join(f"  {line}" if not line.endswith(":") else line for line in self.lines)
        is_parallel = any(isinstance(step, Dispatch) and step.workgroups[0] > 1 for step, _ in runs(self.program.plan))
        return "\n".join(
            [
                *([pool_text()] if is_parallel else []),
                "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)",
                *self.declared,
                *self.functions,
                f"define void @{STEP}(ptr %frame, ptr %pool, ptr %scratch) {{",
                "entry:",
                "  %alone = icmp eq ptr %pool, null",
                body,
                "  ret void",
                "}",
            ]
        )

    def _name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _steps(self, steps: Sequence[Step], depth: int) -> None:
        for step in steps:
            if isinstance(step, Repeat):
                self._repeat(step, depth)
            elif isinstance(step, Copy):
                self._copy(step)
            else:
                self._dispatch(step)

    def _add(self, line: str) -> None:
        self.lines.append(line)

    def _base(self, lines: list[str], buffer: int) -> str:
        """Returns the address of a buffer."""
        slot, base = self._name(), self._name()
        lines.append(f"%{slot} = getelementptr ptr, ptr %frame, i64 {buffer}")
        lines.append(f"%{base} = load ptr, ptr %{slot}, align 8")
        return base

    def _moved(self, lines: list[str], base: str, offset: str) -> str:
        name = self._name()
        lines.append(f"%{name} = getelementptr i8, ptr %{base}, i64 {offset}")
        return name

    def _repeat(self, step: Repeat, depth: int) -> None:
        header, after, index, following, slot = (self._name() for _ in range(5))
        self._add(f"%{slot} = getelementptr i64, ptr %frame, i64 {len(self.program.buffers) + depth}")
        self._add(f"store i64 0, ptr %{slot}, align 8")
        self._add(f"br label %{header}")
        self._add(f"{header}:")
        self._steps(step.steps, depth + 1)
        self._add(f"%{index} = load i64, ptr %{slot}, align 8")
        self._add(f"%{following} = add i64 %{index}, 1")
        self._add(f"store i64 %{following}, ptr %{slot}, align 8")
        more = self._name()
        self._add(f"%{more} = icmp ult i64 %{following}, {step.count}")
        self._add(f"br i1 %{more}, label %{header}, label %{after}")
        self._add(f"{after}:")

    def _copy(self, step: Copy) -> None:
        source = self._moved(self.lines, self._base(self.lines, step.source), str(step.source_offset))
        target = self._moved(self.lines, self._base(self.lines, step.destination), str(step.destination_offset))
        self._add(f"call void @llvm.memmove.p0.p0.i64(ptr %{target}, ptr %{source}, i64 {step.size}, i1 false)")

    def _dispatch(self, step: Dispatch) -> None:
        name = self._dispatch_function(step)
        tasks = step.workgroups[0]
        after = None
        if step.indirect is not None:
            buffer, offset = step.indirect
            address = self._moved(self.lines, self._base(self.lines, buffer), str(offset))
            count, some, run, after = (self._name() for _ in range(4))
            self._add(f"%{count} = load i32, ptr %{address}, align 4")
            self._add(f"%{some} = icmp ne i32 %{count}, 0")
            self._add(f"br i1 %{some}, label %{run}, label %{after}")
            self._add(f"{run}:")
        if tasks == 1:
            self._add(f"call void @{name}(ptr %frame, ptr %scratch, i64 0, i64 1)")
        else:
            alone, together, both = (self._name() for _ in range(3))
            self._add(f"br i1 %alone, label %{alone}, label %{together}")
            self._add(f"{alone}:")
            self._add(f"call void @{name}(ptr %frame, ptr %scratch, i64 0, i64 {tasks})")
            self._add(f"br label %{both}")
            self._add(f"{together}:")
            self._add(f"call void @tg_run(ptr %pool, ptr @{name}, ptr %frame, ptr %scratch, i64 {tasks})")
            self._add(f"br label %{both}")
            self._add(f"{both}:")
        if after is not None:
            self._add(f"br label %{after}")
            self._add(f"{after}:")

    def _dispatch_function(self, step: Dispatch) -> str:
        """Writes a function that runs a range of a dispatch's tasks; gives its name."""
        kernel = self.program.kernels[step.kernel]
        lines: list[str] = []
        addresses: list[str] = []
        for binding in step.bindings:
            base = self._base(lines, binding.buffer)
            at = self._moved(lines, base, str(binding.offset)) if binding.offset else base
            for depth, stride in enumerate(binding.strides):
                if stride:
                    slot, index, offset = (self._name() for _ in range(3))
                    lines.append(f"%{slot} = getelementptr i64, ptr %frame, i64 {len(self.program.buffers) + depth}")
                    lines.append(f"%{index} = load i64, ptr %{slot}, align 8")
                    lines.append(f"%{offset} = mul i64 %{index}, {stride}")
                    at = self._moved(lines, at, f"%{offset}")
            addresses.append(f"ptr %{at}")
        arguments = ", ".join([*addresses, "ptr %scratch", "i64 %first", "i64 %last"])
        types = ", ".join([*["ptr"] * (len(addresses) + 1), "i64", "i64"])
        self.declared[f"declare void @{kernel.entry}({types})"] = None
        name = dispatch_name(len(self.functions))
        head = f"define void @{name}(ptr %frame, ptr %scratch, i64 %first, i64 %last) noinline {{"
        body = [f"  {line}" for line in [*lines, f"call void @{kernel.entry}({arguments})", "ret void"]]
        self.functions.append("\n".join([head, *body, "}"]))
        return name
