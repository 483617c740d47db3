// What `unisono doctor` looks at: each check is a function that finds one thing out.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace unisono::cli {

/// What a check is about to look at.
struct Patient {
  std::string root;  // before /proc, /sys, /dev and the folders of Python; for tests
};

struct Finding {
  enum class State { OK, WARN, FAIL } state = State::OK;
  std::string what;
  std::string remedy = {};  // unless all is well
};

struct Check {
  const char* name;
  Finding (*look)(const Patient&);
};

/// All of them, in the order in which they are told. Together they take less than a second.
std::span<const Check> checks();

/// A part of them, in a file of its own: the network.
Finding lookAtLoopback(const Patient& patient);
Finding lookAtInterfaces(const Patient& patient);
Finding lookAtHostName(const Patient& patient);
Finding lookAtPorts(const Patient& patient);

/// Another: the processor and the kernel, and what programs are told about them.
Finding lookAtVectors(const Patient& patient);
Finding lookAtMemoryNodes(const Patient& patient);
Finding lookAtProcessHandles(const Patient& patient);
Finding lookAtThreads(const Patient& patient);
Finding lookAtIpv6(const Patient& patient);
Finding lookAtProxies(const Patient& patient);

/// A host that was named: whether it is found, and lets TCP through. Takes up to two seconds.
Finding lookAtHost(const std::string& host, std::uint16_t port);
/// The ranks of the job that this process is one of: whether they reach each other, and how far
/// apart their clocks are. All of them call it; `tells`: this is the one that speaks for all.
Finding lookAtJob(bool& tells);

/// The first line of a file of the patient; empty when there is none.
std::string firstLineOf(const Patient& patient, const std::string& file);

}  // namespace unisono::cli
