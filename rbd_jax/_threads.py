"""A batch in ranges of samples that the threads of XLA work off, in LLVM's language.

Whoever is free takes the next range: the thread that was called, and those of the pool that XLA has for what it computes, which
are asked to help. The caller waits only for ranges that somebody has begun. So it never waits for a thread that is not free,
were all of the pool themselves callers that wait. Who comes late finds nothing to do; what they share is let go by the last of
them.

How many ranges there are depends on the batch alone and not on the threads, and so do sums over samples, to the last bit.
"""

from __future__ import annotations

import sys


#: As many ranges as there may be, and how many scalars at least are worked out in one, which takes some 50 µs: to ask a thread
#: takes a tenth of that.
MOST, LEAST = 32 if sys.platform != "win32" else 1, 50_000

#: Where things lie in what XLA hands over: of a call the interface and the context; of the interface what destroys an error, what
#: schedules a task, and what tells the number of threads.
INTERFACE, CONTEXT, DESTROY, SCHEDULE, THREADS = 16, 24, 64, 136, 144


def count(size: int, least: int) -> int:
    """Into how many ranges so many samples come, of at least so many each."""
    return max(min(size // least, MOST), 1)


def in_ranges(lanes: int, least: int) -> str:
    """The function `@shared_out(ptr %call, i64 %size)`: it has `@samples(ptr %call, i64 %number, i64 %from, i64 %until)` called
    for each range, which begins at a multiple of `lanes`."""
    alone = """
define internal void @shared_out(ptr %call, i64 %size) {
  call void @samples(ptr %call, i64 0, i64 0, i64 %size)
  ret void
}"""
    if MOST == 1:
        return alone
    return f"""
declare i32 @sched_yield()
declare i64 @llvm.smax.i64(i64, i64)
%work = type {{ ptr, i64, i64, i64, i64, i64 }} ; the call, its samples; of ranges all, begun, done; who has this
%threads = type {{ i64, ptr, ptr, ptr }}
%task = type {{ i64, ptr, ptr, ptr, ptr }}
%error = type {{ i64, ptr, ptr }}

define internal void @shared_out(ptr %call, i64 %size) {{
  %asked = alloca %threads
  %told = alloca i64
  %task = alloca %task
  %error = alloca %error
  %wanted = sdiv i64 %size, {least}
  %some = call i64 @llvm.smax.i64(i64 %wanted, i64 1)
  %count = call i64 @llvm.smin.i64(i64 %some, i64 {MOST})
  %one = icmp eq i64 %count, 1
  br i1 %one, label %alone, label %threads
alone:
  call void @samples(ptr %call, i64 0, i64 0, i64 %size)
  ret void
threads:
  %api_at = getelementptr i8, ptr %call, i64 {INTERFACE}
  %api = load ptr, ptr %api_at
  %context_at = getelementptr i8, ptr %call, i64 {CONTEXT}
  %context = load ptr, ptr %context_at
  %destroy_at = getelementptr i8, ptr %api, i64 {DESTROY}
  %destroy = load ptr, ptr %destroy_at
  store %threads {{ i64 32, ptr null, ptr null, ptr null }}, ptr %asked
  %asked_context = getelementptr %threads, ptr %asked, i32 0, i32 2
  store ptr %context, ptr %asked_context
  %asked_number = getelementptr %threads, ptr %asked, i32 0, i32 3
  store ptr %told, ptr %asked_number
  %ask_at = getelementptr i8, ptr %api, i64 {THREADS}
  %ask = load ptr, ptr %ask_at
  %unknown = call ptr %ask(ptr %asked)
  %known = icmp eq ptr %unknown, null
  br i1 %known, label %helpers, label %no_pool
no_pool:
  store i64 1, ptr %told
  store %error {{ i64 24, ptr null, ptr null }}, ptr %error
  %which = getelementptr %error, ptr %error, i32 0, i32 2
  store ptr %unknown, ptr %which
  call void %destroy(ptr %error)
  br label %helpers
helpers:
  %there = load i64, ptr %told
  %useful = call i64 @llvm.smin.i64(i64 %there, i64 %count)
  %wished = sub i64 %useful, 1
  %others = call i64 @llvm.smax.i64(i64 %wished, i64 0)
  %all = add i64 %others, 1
  %work = call ptr @malloc(i64 48)
  store ptr %call, ptr %work
  %size_at = getelementptr %work, ptr %work, i32 0, i32 1
  store i64 %size, ptr %size_at
  %count_at = getelementptr %work, ptr %work, i32 0, i32 2
  store i64 %count, ptr %count_at
  %begun_at = getelementptr %work, ptr %work, i32 0, i32 3
  store i64 0, ptr %begun_at
  %done_at = getelementptr %work, ptr %work, i32 0, i32 4
  store i64 0, ptr %done_at
  %users_at = getelementptr %work, ptr %work, i32 0, i32 5
  store i64 %all, ptr %users_at
  store %task {{ i64 40, ptr null, ptr null, ptr @help, ptr null }}, ptr %task
  %task_context = getelementptr %task, ptr %task, i32 0, i32 2
  store ptr %context, ptr %task_context
  %task_work = getelementptr %task, ptr %task, i32 0, i32 4
  store ptr %work, ptr %task_work
  %schedule_at = getelementptr i8, ptr %api, i64 {SCHEDULE}
  %schedule = load ptr, ptr %schedule_at
  br label %next
next:
  %number = phi i64 [0, %helpers], [%after, %scheduled], [%after, %refused]
  %after = add i64 %number, 1
  %more = icmp slt i64 %number, %others
  br i1 %more, label %invite, label %work_too
invite:
  %failed = call ptr %schedule(ptr %task)
  %well = icmp eq ptr %failed, null
  br i1 %well, label %scheduled, label %refused
scheduled:
  br label %next
refused:
  store %error {{ i64 24, ptr null, ptr null }}, ptr %error
  %what = getelementptr %error, ptr %error, i32 0, i32 2
  store ptr %failed, ptr %what
  call void %destroy(ptr %error)
  call void @leave(ptr %work)
  br label %next
work_too:
  call void @ranges(ptr %work)
  br label %wait
wait:
  %done = load atomic i64, ptr %done_at acquire, align 8
  %ready = icmp eq i64 %done, %count
  br i1 %ready, label %end, label %pause
pause:
  call i32 @sched_yield()
  br label %wait
end:
  call void @leave(ptr %work)
  ret void
}}

define internal void @help(ptr %work) {{
  call void @ranges(ptr %work)
  call void @leave(ptr %work)
  ret void
}}

define internal void @ranges(ptr %work) {{
  %call = load ptr, ptr %work
  %size_at = getelementptr %work, ptr %work, i32 0, i32 1
  %size = load i64, ptr %size_at
  %count_at = getelementptr %work, ptr %work, i32 0, i32 2
  %count = load i64, ptr %count_at
  %begun_at = getelementptr %work, ptr %work, i32 0, i32 3
  %done_at = getelementptr %work, ptr %work, i32 0, i32 4
  %filled = add i64 %size, {lanes - 1}
  %chunks = sdiv i64 %filled, {lanes}
  br label %next
next:
  %number = atomicrmw add ptr %begun_at, i64 1 monotonic
  %some = icmp slt i64 %number, %count
  br i1 %some, label %range, label %none
range:
  %following = add i64 %number, 1
  %first = mul i64 %number, %chunks
  %last = mul i64 %following, %chunks
  %first_chunk = sdiv i64 %first, %count
  %last_chunk = sdiv i64 %last, %count
  %from = mul i64 %first_chunk, {lanes}
  %beyond = mul i64 %last_chunk, {lanes}
  %until = call i64 @llvm.smin.i64(i64 %beyond, i64 %size)
  call void @samples(ptr %call, i64 %number, i64 %from, i64 %until)
  %ended = atomicrmw add ptr %done_at, i64 1 release
  br label %next
none:
  ret void
}}

define internal void @leave(ptr %work) {{
  %users_at = getelementptr %work, ptr %work, i32 0, i32 5
  %before = atomicrmw sub ptr %users_at, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %free, label %end
free:
  call void @free(ptr %work)
  br label %end
end:
  ret void
}}"""
