// Everything unisono offers to programs, in one include.
#pragma once

#include "unisono/base/api.hpp"
#include "unisono/base/error.hpp"
#include "unisono/store/file_store.hpp"
#include "unisono/store/hash_store.hpp"
#include "unisono/store/prefix_store.hpp"
#include "unisono/store/rendezvous.hpp"
#include "unisono/store/store.hpp"
#include "unisono/store/tcp_store.hpp"
#include "unisono/version.hpp"
