// Mail by TCP: a Ferry carries what is in its pipes.
#pragma once

#include <utility>
#include <vector>

#include "transport/mail.hpp"
#include "transport/mesh/ferry.hpp"

namespace unisono::mesh {

class Mail final : private Ferry, public unisono::Mail {
 public:
  /// `mesh`: of the group; its links of messages are this one's from now on.
  Mail(Mesh& mesh, int cores, std::vector<int> globalRanks)
      : Ferry(mesh.mail()),
        unisono::Mail(static_cast<Ferry&>(*this), mesh.ranksHere(), cores, std::move(globalRanks),
                      kLooks) {}

 private:
  // Each is a call of the kernel or more: as long as it takes to be woken.
  static constexpr int kLooks = 20;
};

}  // namespace unisono::mesh
