; Ranges of samples, shared out among the threads of XLA: a template, which threads.py fills in.
declare i32 @sched_yield()
declare i64 @llvm.smax.i64(i64, i64)
%work = type { ptr, i64, i64, i64, i64, i64, ptr } ; the call, its samples; of ranges all, begun, done; who has this; a failure
%asked = type { i64, ptr, ptr, ptr } ; its bytes, no extension, the context, where the answer goes
%task = type { i64, ptr, ptr, ptr, ptr } ; its bytes, no extension, the context, what is to be done with what
%error = type { i64, ptr, ptr } ; its bytes, no extension, the error

define internal void @shared_out(ptr %call, i64 %size, ptr %failed) {
  %wanted = sdiv i64 %size, $least
  %some = call i64 @llvm.smax.i64(i64 %wanted, i64 1)
  %count = call i64 @llvm.smin.i64(i64 %some, i64 $MOST)
  %one = icmp eq i64 %count, 1
  br i1 %one, label %alone, label %share
alone:
  call void @samples(ptr %call, i64 %size, ptr %failed, i64 0, i64 0, i64 %size)
  ret void
share:
  %work = call ptr @malloc(i64 56)
  %none = icmp eq ptr %work, null
  br i1 %none, label %alone, label %together
together:
  %there = call i64 @threads(ptr %call)
  %useful = call i64 @llvm.smin.i64(i64 %there, i64 %count)
  %users = call i64 @llvm.smax.i64(i64 %useful, i64 1)
  %work0 = insertvalue %work zeroinitializer, ptr %call, 0
  %work1 = insertvalue %work %work0, i64 %size, 1
  %work2 = insertvalue %work %work1, i64 %count, 2
  %work3 = insertvalue %work %work2, i64 %users, 5
  %work4 = insertvalue %work %work3, ptr %failed, 6
  store %work %work4, ptr %work
  %done_at = getelementptr %work, ptr %work, i32 0, i32 4
  br label %next
next:
  %number = phi i64 [1, %together], [%after, %invite]
  %more = icmp slt i64 %number, %users
  br i1 %more, label %invite, label %work_too
invite:
  call void @invite(ptr %call, ptr %work)
  %after = add i64 %number, 1
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
}

; How many threads the pool has; 1 if that is not known.
define internal i64 @threads(ptr %call) {
  %number = alloca i64
  %asked = alloca %asked
  %context = call ptr @at(ptr %call, i64 $CONTEXT)
  %asked0 = insertvalue %asked { i64 32, ptr null, ptr null, ptr null }, ptr %context, 2
  %asked1 = insertvalue %asked %asked0, ptr %number, 3
  store %asked %asked1, ptr %asked
  %interface = call ptr @at(ptr %call, i64 $INTERFACE)
  %tell = call ptr @at(ptr %interface, i64 $THREADS)
  %error = call ptr %tell(ptr %asked)
  %well = icmp eq ptr %error, null
  br i1 %well, label %known, label %unknown
known:
  %there = load i64, ptr %number
  ret i64 %there
unknown:
  call void @destroy(ptr %interface, ptr %error)
  ret i64 1
}

; Ask a thread of the pool to help.
define internal void @invite(ptr %call, ptr %work) {
  %task = alloca %task
  %context = call ptr @at(ptr %call, i64 $CONTEXT)
  %task0 = insertvalue %task { i64 40, ptr null, ptr null, ptr @help, ptr null }, ptr %context, 2
  %task1 = insertvalue %task %task0, ptr %work, 4
  store %task %task1, ptr %task
  %interface = call ptr @at(ptr %call, i64 $INTERFACE)
  %schedule = call ptr @at(ptr %interface, i64 $SCHEDULE)
  %error = call ptr %schedule(ptr %task)
  %well = icmp eq ptr %error, null
  br i1 %well, label %end, label %refused
refused:
  call void @destroy(ptr %interface, ptr %error)
  call void @leave(ptr %work)
  br label %end
end:
  ret void
}

define internal void @destroy(ptr %interface, ptr %which) {
  %error = alloca %error
  %error0 = insertvalue %error { i64 24, ptr null, ptr null }, ptr %which, 2
  store %error %error0, ptr %error
  %destroy = call ptr @at(ptr %interface, i64 $DESTROY)
  call void %destroy(ptr %error)
  ret void
}

; The pointer that is so many bytes further on.
define internal ptr @at(ptr %first, i64 %bytes) {
  %place = getelementptr i8, ptr %first, i64 %bytes
  %found = load ptr, ptr %place
  ret ptr %found
}

define internal void @help(ptr %work) {
  call void @ranges(ptr %work)
  call void @leave(ptr %work)
  ret void
}

; Work off ranges until all are begun.
define internal void @ranges(ptr %work) {
  %call = call ptr @at(ptr %work, i64 0)
  %failed = call ptr @at(ptr %work, i64 48)
  %size_at = getelementptr %work, ptr %work, i32 0, i32 1
  %size = load i64, ptr %size_at
  %count_at = getelementptr %work, ptr %work, i32 0, i32 2
  %count = load i64, ptr %count_at
  %begun_at = getelementptr %work, ptr %work, i32 0, i32 3
  %done_at = getelementptr %work, ptr %work, i32 0, i32 4
  %filled = add i64 %size, $lanes_1
  %chunks = sdiv i64 %filled, $lanes
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
  %from = mul i64 %first_chunk, $lanes
  %beyond = mul i64 %last_chunk, $lanes
  %until = call i64 @llvm.smin.i64(i64 %beyond, i64 %size)
  call void @samples(ptr %call, i64 %size, ptr %failed, i64 %number, i64 %from, i64 %until)
  %ended = atomicrmw add ptr %done_at, i64 1 release
  br label %next
none:
  ret void
}

; Who is the last to leave frees what was shared.
define internal void @leave(ptr %work) {
  %users_at = getelementptr %work, ptr %work, i32 0, i32 5
  %before = atomicrmw sub ptr %users_at, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %free, label %end
free:
  call void @free(ptr %work)
  br label %end
end:
  ret void
}
