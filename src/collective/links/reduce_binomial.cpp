#include "collective/links/algorithms.hpp"
#include "collective/links/patterns.hpp"

namespace unisono::links {

void reduceBinomial(Communicator& comm, ConstBlock in, Block out, int root,
                    const Stepwise& reduction) {
  const Tree tree{comm.rank(), comm.size(), root};
  ConstBlock sum = in;
  if (tree.isRoot() || tree.hasChild(1)) {
    const Block own = tree.isRoot() ? out : comm.scratch(in.size());
    copyOwnBlock(own, in);
    for (int distance = 1; tree.hasChild(distance); distance *= 2) {
      comm.receive({.rank = tree.rankAt(tree.place() + distance),
                    .block = own,
                    .into = RecvFrom::Into::AFTER,
                    .reduction = &reduction.step()});
    }
    sum = own;
  }
  if (tree.isRoot()) {
    reduction.finish(out);
  } else {
    comm.send({.rank = tree.parent(), .block = sum});
  }
}

}  // namespace unisono::links
