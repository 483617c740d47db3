#include "backend/native/mail_work.hpp"

#include <span>
#include <utility>

namespace unisono {

MailWork::MailWork(const std::shared_ptr<Mail>& mail, CollectiveArgs&& args, Milliseconds limit)
    : Work(args.type, args.seq), mail_(mail), args_(std::move(args)) {
  const Tensor& tensor = *args_.anyTensor();
  sends = args_.type == OpType::SEND;
  peer = args_.type == OpType::RECVANYSOURCE ? kAnybody : args_.peer;
  tag = args_.tag;
  data = static_cast<std::byte*>(tensor.data());
  bytes = tensor.bytes();
  seq = args_.seq;
  timeout = limit;
  deadline = Deadline::after(limit);
  markStarted();
}

Work::Callbacks MailWork::ended(int source, std::exception_ptr failure) noexcept {
  if (!sends && !failure) {
    setSourceRank(source);
  }
  const CollectiveArgs args = std::move(args_);  // what it keeps alive is not needed any more
  return finishDeferred(std::move(failure), args.outputs);
}

void MailWork::help(Work::TimePoint until) {
  if (const std::shared_ptr<Mail> mail = mail_.lock()) {
    mail->help(*this, until);
  }
}

WorkPtr mailNow(Mail& mail, const CollectiveArgs& args) {
  if (args.asyncOp || args.type == OpType::RECVANYSOURCE) {
    return nullptr;
  }
  const Tensor& tensor = *args.anyTensor();
  const std::span bytes{static_cast<std::byte*>(tensor.data()), tensor.bytes()};
  if (args.type == OpType::SEND) {
    return mail.sendNow(args.peer, args.tag, bytes) ? finishedWork() : nullptr;
  }
  return mail.receiveNow(args.peer, args.tag, bytes) ? receivedWork(args.peer) : nullptr;
}

WorkPtr startMail(const std::shared_ptr<Mail>& mail, CollectiveArgs&& args, Milliseconds timeout) {
  const bool waits = !args.asyncOp;
  auto work = std::make_shared<MailWork>(mail, std::move(args), timeout);
  mail->post(work, waits);
  return work;
}

}  // namespace unisono
