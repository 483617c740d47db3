// Works of unisono.h.
#include "capi/error.hpp"
#include "capi/handles.hpp"

using namespace unisono::capi;  // NOLINT: this file is the outside of that namespace

unisono_status unisono_work_wait(unisono_work* work, int64_t timeout_ms) {
  return guarded(
      [&] { given(work, "work").work->wait(timeoutOf(timeout_ms, unisono::kNoTimeout)); });
}

int unisono_work_done(unisono_work* work) {
  return work != nullptr && work->work->isCompleted() ? 1 : 0;
}

int unisono_work_source(unisono_work* work) {
  using unisono::OpType;
  const OpType type = work == nullptr ? OpType::UNKNOWN : work->work->opType();
  return type == OpType::RECV || type == OpType::RECVANYSOURCE ? work->work->sourceRank() : -1;
}

unisono_status unisono_work_on_done(unisono_work* work, void (*callback)(void*), void* context) {
  return guarded([&] {
    unisono_work& one = given(work, "work");
    UNISONO_CHECK(callback != nullptr, "callback is NULL");
    one.work->addCallback([callback, context] { callback(context); });
  });
}

void unisono_work_free(unisono_work* work) {
  delete work;
}
