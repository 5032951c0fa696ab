#!/usr/bin/perl
# The job under proof. It writes its own evidence, which only the judge reads: a file per process, with a mark at its start,
# one at every tick, one at its end; and numbered lines to its output. Times are of the machine's monotonic clock.
# Arguments: directory of the evidence, kind, milliseconds to run, exit code.
use strict;
use warnings;
use IO::Handle;
use Fcntl;
use POSIX ();
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep);

my ($directory, $kind, $ms, $code) = @ARGV;
my $key = "$ENV{BERTH_REQUEST}.$ENV{BERTH_ATTEMPT}.$ENV{BERTH_NODE_RANK}";
my $host = (POSIX::uname())[1];
my ($out, $err) = (0, 0);
my ($evidence, $isAsked, $hasSaved) = (undef, 0, 0);
STDOUT->autoflush(1);
STDERR->autoflush(1);

sub now { sprintf("%.4f", clock_gettime(CLOCK_MONOTONIC)) }

sub open_evidence {
  my ($role) = @_;
  sysopen($evidence, "$directory/$key.$role.$host.$$." . now(), O_WRONLY | O_CREAT | O_EXCL, 0644) or POSIX::_exit(99);
}

sub mark {
  my ($text, $isDurable) = @_;
  syswrite($evidence, "$text\n");
  $evidence->sync if $isDurable;
}

sub finish {
  my ($with) = @_;
  mark("end " . now() . " $with $out $err", 1);
  POSIX::_exit($with);
}

# Every line can be told from every other, and has a length of its own.
sub lines {
  my ($count) = @_;
  for (1 .. $count) {
    $out++;
    my $length = $kind eq "loud" && $out % 50 == 0 ? 30_000 : ($out * 7919) % 97;
    print STDOUT "o $out $key " . ("x" x $length) . "\n";
    next if $out % 3;
    $err++;
    print STDERR "e $err $key\n";
  }
}

open_evidence("main");
mark("start " . now() . " $$ $host $ENV{BERTH_RESUME}", 1);
$SIG{PIPE} = "IGNORE"; # Only who ends it ends it.
$SIG{TERM} = $kind eq "deaf" ? "IGNORE" : sub { $isAsked = 1 };
if ($kind eq "tree" && !fork()) {
  # In a session of its own, and deaf to requests: only who ends the whole tree ends it.
  POSIX::setsid();
  close($_) for (*STDOUT, *STDERR);
  $SIG{TERM} = "IGNORE";
  open_evidence("child");
  while (1) {
    mark("tick " . now());
    sleep(0.1);
  }
}
my $untilTime = now() + $ms / 1000;
while (now() < $untilTime) {
  mark("tick " . now());
  lines($kind eq "loud" ? 40 : 2);
  if ($kind eq "saver" && !$hasSaved && -e $ENV{BERTH_PREEMPT_FILE}) {
    $hasSaved = 1;
    mark("saved " . now(), 1);
    open(my $done, ">", "$ENV{BERTH_CHECKPOINT_DIR}/done") or POSIX::_exit(98);
    close($done);
  }
  finish(7) if $isAsked;
  sleep(0.1);
}
finish($code);
