"""Execution of long programs for groups of chunks: each part runs for all chunks of a group before the next part runs.

Instructions are then read from memory once per group. Long programs do not fit into instruction caches, and reading them takes
longer than running them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


#: Maximum number of chunks of a group, and of the bytes that the group stores: in more memory, groups are slower than chunks one
#: by one. Programs with fewer scalars than LONG fit into the caches, and do not run for groups.
CHUNKS, BYTES, LONG = 8, 5_000_000, 100_000


def chunks_at_once(scalars: int, memory: int) -> int:
    """Returns the number of chunks of a group, 1 if single chunks are faster.

    Args:
      scalars: The number of scalars of the program.
      memory: The bytes that it stores per chunk.
    """
    return max(min(CHUNKS, BYTES // memory), 1) if scalars > LONG else 1


class Groups:
    """The instructions of a program that runs for groups of chunks. Each chunk has its own memory.

    - `count`: the number of chunks of a group.
    - `lanes`: the number of samples of a chunk.
    - `memory`: the bytes of memory of a chunk. The memory of all chunks is contiguous, from `%frame` on.
    - `pointers`: the arrays that are arguments of the functions of a chunk.
    """

    def __init__(self, count: int, lanes: int, memory: int, pointers: Sequence[str]):
        self.count, self.lanes, self.memory = count, lanes, memory
        self.parameters = ", ".join(["ptr %frame", "i64 %first", "i64 %end", *(f"ptr {x}" for x in pointers)])
        self.arguments = ", ".join(
            ["ptr %own", "i64 %first_own", "i64 %end", *(f"ptr {x}" for x in pointers)]
        )

    def functions(self, phases: Mapping[str, Sequence[str]], block: str) -> list[str]:
        """Returns the functions of a chunk, from their names and instructions; `block` is the name of their first block."""
        return [
            "\n  ".join([f"define internal void @{name}({self.parameters}) noinline {{", f"{block}:", *lines])
            + "\n  ret void\n}"
            for name, lines in phases.items()
        ]

    def constants(self, call: str) -> list[str]:
        """Returns instructions that call a function for each chunk, once per range of samples, after the block `ready`."""
        return self._loop("constants", "ready", call.replace("%first_own", "0"), str(self.count))

    def body(self, calls: Sequence[str]) -> tuple[list[str], str]:
        """Returns instructions that run calls, each for all chunks of the group at `%first`, and their last block."""
        lines = [
            "%left = sub i64 %until, %first",
            f"%left_up = add i64 %left, {self.lanes - 1}",
            f"%there = sdiv i64 %left_up, {self.lanes}",
            f"%few = call i64 @llvm.smin.i64(i64 %there, i64 {self.count})",
        ]
        before = "chunk"
        for number, call in enumerate(calls):
            lines += self._loop(f"work{number}", before, call, "%few")
            before = f"after_work{number}"
        return lines, before

    def call(self, name: str) -> str:
        """Returns a call of a function of a chunk."""
        return f"call void @{name}({self.arguments})"

    def _loop(self, name: str, before: str, call: str, count: str) -> list[str]:
        own = lambda text: text.replace("%own", f"%own_{name}").replace("%first_own", f"%first_{name}")
        return [
            f"br label %{name}",
            f"{name}:",
            f"%c_{name} = phi i64 [0, %{before}], [%n_{name}, %{name}]",
            f"%o_{name} = mul i64 %c_{name}, {self.memory}",
            f"%own_{name} = getelementptr i8, ptr %frame, i64 %o_{name}",
            *(
                [f"%d_{name} = mul i64 %c_{name}, {self.lanes}", f"%first_{name} = add i64 %first, %d_{name}"]
                if "%first_own" in call
                else []
            ),
            own(call),
            f"%n_{name} = add i64 %c_{name}, 1",
            f"%m_{name} = icmp slt i64 %n_{name}, {count}",
            f"br i1 %m_{name}, label %{name}, label %after_{name}",
            f"after_{name}:",
        ]
