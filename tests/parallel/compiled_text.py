"""Communication between devices, as read from the text of a compiled program."""

import re


#: Operations by which devices communicate; asynchronous ones end in -start.
COLLECTIVE = re.compile(
    r" (all-reduce|all-gather|all-to-all|ragged-all-to-all|reduce-scatter|collective-permute|collective-broadcast|send|recv)"
    r"(?:-start)?\("
)
HEAD = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
CALLED = re.compile(r"(?:calls|to_apply|body|condition|\w*computations?)=(\{[^}]*\}|%?[\w.\-]+)")
NAME = re.compile(r"[\w.\-]+")


def communication(text):
    """Returns the communication operations: those inside loops, and the others."""
    inside, calls, loops, here = {}, {}, set(), None
    for line in text.splitlines():
        head = HEAD.match(line)
        if head:
            here = head[1]
            inside[here], calls[here] = [], set()
        elif here is not None:
            inside[here] += COLLECTIVE.findall(line)
            called = {name for found in CALLED.findall(line) for name in NAME.findall(found)}
            calls[here] |= called
            if " while(" in line:
                loops |= called
    assert inside and any("while" in line for line in text.splitlines()) == bool(loops)
    waiting, within = list(loops), set()
    while waiting:
        name = waiting.pop()
        if name in inside and name not in within:
            within.add(name)
            waiting += calls[name]
    found = lambda names: sorted(one for name in names for one in inside[name])
    return found(within), found(set(inside) - within)
