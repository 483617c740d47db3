// MailWork: a send or a receive under way.
#pragma once

#include <memory>

#include "unisono/work/collective_args.hpp"
#include "unisono/work/work.hpp"

#include "transport/mail.hpp"

namespace unisono {

class MailWork final : public Work, public Parcel {
 public:
  /// `args` are valid; `timeout` is the operation's.
  MailWork(const std::shared_ptr<Mail>& mail, CollectiveArgs&& args, Milliseconds timeout);

  Work::Callbacks ended(int source, std::exception_ptr failure) noexcept override;
  /// Ends one wait: what c10d does with a send or receive that is aborted.
  void abort() override { cancelOneWait(); }

 private:
  void help(Work::TimePoint until) override;

  // Weak: a Work that is kept when it is over must not keep the memory of its group.
  const std::weak_ptr<Mail> mail_;
  CollectiveArgs args_;
};

/// A synchronous message that can be sent or received right here: its Work; else null, and nothing
/// has happened.
WorkPtr mailNow(Mail& mail, const CollectiveArgs& args);

/// Posts it. Throws what ended the group, if something did.
WorkPtr startMail(const std::shared_ptr<Mail>& mail, CollectiveArgs&& args, Milliseconds timeout);

}  // namespace unisono
