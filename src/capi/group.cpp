// Groups of unisono.h, and memory that belongs to one.
#include <memory>

#include "capi/error.hpp"
#include "capi/handles.hpp"

namespace unisono::capi {
namespace {

unisono_group* handleOf(std::optional<Group> group) {
  return group ? new unisono_group(std::move(*group)) : nullptr;
}

InitOptions initOptions(const unisono_init_options& asked) {
  InitOptions options;
  if (asked.url != nullptr) {
    options.url = asked.url;
  }
  if (asked.store != nullptr) {
    options.store = asked.store->store;
  }
  if (asked.rank != UNISONO_UNSET) {
    options.rank = asked.rank;
  }
  if (asked.size != UNISONO_UNSET) {
    options.size = asked.size;
  }
  if (asked.name != nullptr) {
    options.name = asked.name;
  }
  options.timeout = timeoutOf(asked.timeout_ms);
  return options;
}

}  // namespace
}  // namespace unisono::capi

using namespace unisono::capi;  // NOLINT: this file is the outside of that namespace

unisono_status unisono_init(const unisono_init_options* options, unisono_group** group) {
  return guarded([&] {
    unisono_group*& out = given(group, "group");
    const unisono_init_options all = known(options, unisono_init_options UNISONO_INIT_OPTIONS);
    out = handleOf(unisono::init(initOptions(all)));
  });
}

int unisono_group_rank(const unisono_group* group) {
  return group == nullptr ? -1 : group->group.rank();
}

int unisono_group_size(const unisono_group* group) {
  return group == nullptr ? -1 : group->group.size();
}

const char* unisono_group_name(const unisono_group* group) {
  return group == nullptr ? "" : group->name.c_str();
}

unisono_status unisono_group_split(unisono_group* group, int color, unisono_group** out) {
  return guarded([&] {
    unisono_group*& made = given(out, "out");
    const auto wanted = color == UNISONO_NO_COLOR ? std::nullopt : std::optional(color);
    made = handleOf(given(group, "group").group.split(wanted));
  });
}

unisono_status unisono_group_new(unisono_group* group, const int* ranks, size_t count,
                                 unisono_group** out) {
  return guarded([&] {
    unisono_group*& made = given(out, "out");
    const std::vector<int> list(ranks, ranks + (ranks == nullptr ? 0 : count));
    made = handleOf(given(group, "group").group.newGroup(list));
  });
}

unisono_status unisono_group_abort(unisono_group* group) {
  return guarded([&] { given(group, "group").group.processGroup().abort(); });
}

unisono_status unisono_group_destroy(unisono_group* group) {
  const std::unique_ptr<unisono_group> owned(group);
  return guarded([&] { unisono::destroyProcessGroup(given(owned.get(), "group").group); });
}

void unisono_group_free(unisono_group* group) {
  delete group;
}

unisono_status unisono_memory_new(unisono_group* group, size_t bytes, unisono_memory** memory) {
  return guarded([&] {
    unisono_memory*& made = given(memory, "memory");
    made = new unisono_memory{
        given(group, "group")
            .group.allocate(static_cast<std::int64_t>(bytes), unisono::DType::UINT8)};
  });
}

void* unisono_memory_data(const unisono_memory* memory) {
  return memory == nullptr ? nullptr : memory->tensor.data();
}

void unisono_memory_free(unisono_memory* memory) {
  delete memory;
}
