; The function that XLA calls: a template, which xla_ffi.py fills in.
declare i64 @llvm.smin.i64(i64, i64)
declare ptr @llvm.ptrmask.p0.i64(ptr, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare ptr @malloc(i64)
declare void @free(ptr)
define ptr @run(ptr %call) {
  %e_at = getelementptr i8, ptr %call, i64 $EXTENSION
  %e = load ptr, ptr %e_at
  %plain = icmp eq ptr %e, null
  br i1 %plain, label %start, label %extended
extended:
  %kind_at = getelementptr i8, ptr %e, i64 $KIND
  %kind = load i32, ptr %kind_at
  %asked = icmp eq i32 %kind, 1
  br i1 %asked, label %told, label %start
told:
  %m_at = getelementptr i8, ptr %e, i64 $METADATA
  %m = load ptr, ptr %m_at
  %major = getelementptr i8, ptr %m, i64 $MAJOR
  %minor = getelementptr i8, ptr %m, i64 $MINOR
  store i32 $major, ptr %major
  store i32 $minor, ptr %minor
  ret ptr null
start:
  %arguments_at = getelementptr i8, ptr %call, i64 $ARGUMENTS
  %arguments = load ptr, ptr %arguments_at
  %array_at = getelementptr ptr, ptr %arguments, i64 $batched
  %array = load ptr, ptr %array_at
  %sides_at = getelementptr i8, ptr %array, i64 $SIDES
  %sides = load ptr, ptr %sides_at
  %size = load i64, ptr %sides
  %failed = alloca i64
  store i64 0, ptr %failed
  call void @shared_out(ptr %call, i64 %size, ptr %failed)
  %failures = load atomic i64, ptr %failed monotonic, align 8
  %well = icmp eq i64 %failures, 0
  br i1 %well, label %done, label %exhausted
done:
  ret ptr null
exhausted:
  %told_at = alloca { i64, ptr, ptr, i32 }
  store { i64, ptr, ptr, i32 } { i64 32, ptr null, ptr @message, i32 $EXHAUSTED }, ptr %told_at
  %interface_at = getelementptr i8, ptr %call, i64 $INTERFACE
  %interface = load ptr, ptr %interface_at
  %create_at = getelementptr i8, ptr %interface, i64 $CREATE
  %create = load ptr, ptr %create_at
  %error = call ptr %create(ptr %told_at)
  ret ptr %error
}

@message = private constant [$message_bytes x i8] c"$message\00"
define internal void @samples(ptr %call, i64 %size, ptr %failed, i64 %number, i64 %from, i64 %until) {
start:
  $begin
  br label %begun
begun:
  br i1 %any, label %chunk, label %done
chunk:
  %first = phi i64 [%from, %begun], [%next, %$last]
  $body
  %next = add i64 %first, $step
  %more = icmp slt i64 %next, %until
  br i1 %more, label %chunk, label %done
done:
  $end
  ret void
}
